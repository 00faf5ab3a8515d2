//! What a list says of what it could not show.

use std::sync::Arc;

use async_trait::async_trait;
use corral::backend::contract::{Backend, ReadCx};
use corral::backend::demo::Knobs;
use corral::fleet::{Fleet, FleetOptions, Member};
use corral::model::{
    Body, Check, ContextSpec, Detail, Dirs, Error, ErrorKind, Facts, Instance, InstanceId,
    InstanceKind, Inventory, Kind, Operation, Result, State, Support,
};

use crate::bench::{Bench, action, engine};

/// A server whose credentials see only a part.
struct Partial {
    hidden: Option<u64>,
    complete: bool,
}

#[async_trait]
impl Backend for Partial {
    fn kind(&self) -> Kind {
        Kind::read("partial")
    }

    fn families(&self) -> &dyn corral::backend::contract::Families {
        &corral::backend::contract::NoFamilies
    }

    fn support(&self, _: Operation, _: Option<&Instance>) -> Support {
        Support::No("only looked at".to_owned())
    }

    async fn probe(&self, _: &ReadCx) -> Result<Facts> {
        Ok(Facts::default())
    }

    async fn inventory(&self, _: &ReadCx) -> Result<Inventory> {
        let now = jiff::Timestamp::now();
        let id = InstanceId::new("part", None, "seen");
        let row = Instance::new(id, self.kind(), InstanceKind::Vm, State::Running, now);
        Ok(Inventory {
            instances: vec![row],
            hidden: self.hidden,
            complete: self.complete,
            ..Inventory::empty(now)
        })
    }

    async fn detail(&self, _: &ReadCx, id: &InstanceId) -> Result<Detail> {
        Err(Error::not_found(format!("there is no {id}")))
    }

    async fn doctor(&self, _: &ReadCx) -> Vec<Check> {
        Vec::new()
    }
}

#[tokio::test]
async fn req_38_what_is_hidden_or_cut_off_is_said() {
    for (hidden, complete) in [(Some(29), true), (None, false)] {
        let dir = tempfile::tempdir().unwrap();
        let mut spec = ContextSpec::new("part", Kind::read("partial"));
        spec.configured = true;
        let backend = Arc::new(Partial { hidden, complete });
        let fleet = Fleet::start(vec![Member { spec, backend }], FleetOptions::default());
        let engine = engine(fleet, &Dirs::under(dir.path()), None, false);
        let data = engine.read(action("list")).await.unwrap();
        assert!(!data.complete);
        let said = data.warnings.join("\n");
        assert!(said.contains("part"), "{said}");
        assert_eq!(hidden.is_some(), said.contains("29"), "{said}");
        let Body::Checks(checks) = engine.read(action("doctor")).await.unwrap().body else {
            panic!()
        };
        let answers = checks.iter().find(|c| c.id == "context.answers").unwrap();
        assert_ne!(
            answers.status,
            corral::model::CheckStatus::Ok,
            "{answers:?}"
        );
    }
}

#[tokio::test]
async fn req_05_an_item_that_cannot_be_read_hides_no_other() {
    let bench = Bench::new();
    let Body::Instances(rows) = bench.read("list").await.unwrap().body else {
        panic!()
    };
    let broken: Vec<_> = rows
        .iter()
        .filter(|row| row.state == State::Broken)
        .collect();
    assert!(!broken.is_empty());
    assert!(broken.iter().all(|row| row.reason.is_some()));
    for row in broken {
        let line = format!("list --context {}", row.context);
        let Body::Instances(same) = bench.read(&line).await.unwrap().body else {
            panic!()
        };
        assert!(
            same.iter()
                .filter(|other| other.state != State::Broken)
                .count()
                > 1
        );
    }
}

#[tokio::test]
async fn backups_are_listed_like_everything_else() {
    let bench = Bench::with(
        Knobs {
            refused: vec!["pve".to_owned()],
            ..Knobs::instant()
        },
        None,
        false,
    );
    for id in ["local/badboot", "local/win11"] {
        bench.force(&format!("backup create {id}")).await.unwrap();
    }
    let listed = async |line: &str| {
        let data = bench.read(line).await.unwrap();
        let Body::Backups(rows) = data.body else {
            panic!()
        };
        let mut ids: Vec<String> = rows.iter().map(|row| row.instance.to_string()).collect();
        ids.sort();
        (ids, data.complete)
    };
    let both = ["local/badboot", "local/win11"].map(str::to_owned).to_vec();
    let one = vec!["local/badboot".to_owned()];
    for (line, wanted) in [
        ("backup list --context local", &both),
        ("backup list --context local --verify", &both),
        ("backup list local/badboot", &one),
        ("backup list badboot --context local", &one),
        ("backup list local/bad*", &one),
        ("backup list --context local --filter name:badboot", &one),
        ("backup list local/* --filter name:badboot --verify", &one),
        ("backup list local/web", &Vec::new()),
    ] {
        assert_eq!(listed(line).await, (wanted.clone(), true), "{line}");
    }
    // One that does not answer could have more of them.
    assert!(!listed("backup list").await.1);
    for line in [
        "backup list local/none",
        "backup list --context local1",
        "backup list --context local --filter name:other",
    ] {
        let error = bench.read(line).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotFound, "{line}: {error}");
    }
}

#[tokio::test]
async fn images_that_are_all_in_use_are_not_called_none() {
    let bench = Bench::new();
    let unused = bench.read("image list --unused").await.unwrap();
    assert_eq!(unused.nothing, Some("no unused images"));
    assert_eq!(bench.read("image list").await.unwrap().nothing, None);
}

/// What one context says is there while another keeps silent.
#[tokio::test]
async fn doctor_says_what_it_knows_as_it_comes() {
    use corral::action::SoFar;
    use futures::StreamExt as _;

    let bench = Bench::with(
        Knobs {
            slow: vec![("pve".to_owned(), std::time::Duration::from_secs(3))],
            ..Knobs::instant()
        },
        None,
        false,
    );
    let parts = corral::action::in_parts(Arc::clone(&bench.engine), action("doctor"));
    let parts: Vec<_> = parts
        .map(|told| match told {
            SoFar::Part(part) => *part,
            SoFar::Whole(whole) => *whole.unwrap(),
        })
        .collect()
        .await;
    let of = |data: &corral::model::Data, context: &str| match &data.body {
        Body::Checks(checks) => checks.iter().any(|c| c.context.as_deref() == Some(context)),
        _ => panic!(),
    };
    assert!(
        parts
            .iter()
            .any(|part| !part.complete && of(part, "local") && !of(part, "pve"))
    );
    let whole: Vec<_> = parts.iter().filter(|part| part.complete).collect();
    assert!(whole.len() == 1 && of(whole[0], "local") && of(whole[0], "pve"));
}

//! Contexts as a user changes them: through the engine's own door.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::contexts::Unopened;
use crate::action::{Engine, EngineParts, RunOptions};
use crate::backend::contract::Env;
use crate::config::{LoadInput, load};
use crate::fleet::{Fleet, FleetOptions, Member};
use crate::model::{
    Action, Body, Consent, ContextSpec, Dirs, Error, ErrorKind, Gate, Kind, Result,
};

const KIND: &str = "made-up";

struct House {
    home: tempfile::TempDir,
    engine: Arc<Engine>,
}

/// `local` is found here, `pve` is configured and protected, `old` is disabled.
fn house(readonly: Option<&str>) -> House {
    let home = tempfile::tempdir().unwrap();
    let dirs = Dirs::under(home.path());
    let file = dirs.config.join("config.toml");
    let text = format!(
        "default-context = \"pve\"\n[[context]]\nname = \"pve\"\nbackend = \"{KIND}\"\nprotected = true # keep\n\
         [[context]]\nname = \"old\"\nbackend = \"{KIND}\"\nenabled = false\n"
    );
    std::fs::create_dir_all(&dirs.config).unwrap();
    std::fs::write(&file, text).unwrap();
    let config = load(&LoadInput {
        dirs: &dirs,
        file: None,
        env: &BTreeMap::new(),
        flags: Vec::new(),
        kinds: &[(KIND, &[])],
    });
    assert_eq!(config.problems, []);
    let member = |name: &str, configured: bool, protected: bool| {
        let mut spec = ContextSpec::new(name, Kind::read(KIND));
        spec.configured = configured;
        spec.protected = protected;
        let error = Error::unreachable(format!("{name} is not there"));
        let backend = Arc::new(Unopened::new(spec.kind.clone(), error));
        Member { spec, backend }
    };
    let members = vec![member("pve", true, true), member("local", false, false)];
    let engine = Engine::new(EngineParts {
        fleet: Fleet::start(members, FleetOptions::default()),
        env: Arc::new(Env {
            dirs,
            path: Vec::new(),
            vars: BTreeMap::new(),
            home: home.path().to_owned(),
        }),
        config,
        readonly: readonly.map(|why| crate::model::Refusal::new(why, None)),
        in_memory: false,
        source: None,
    });
    House { home, engine }
}

impl House {
    fn text(&self) -> String {
        std::fs::read_to_string(self.home.path().join("config/config.toml")).unwrap()
    }

    async fn plan(&self, verb: &str, name: &str) -> Result<crate::model::Plan> {
        self.engine.plan(&Action::new(verb).on(name.parse()?)).await
    }

    async fn change(&self, verb: &str, name: &str, consent: &Consent) -> Result<()> {
        let plan = self.plan(verb, name).await?;
        let options = RunOptions::default();
        self.engine.submit(&plan, consent, &options).await?;
        let mut tasks = self.engine.tasks();
        let done = |all: &Arc<Vec<crate::model::Task>>| all.iter().all(|t| t.state.is_final());
        tasks.wait_for(done).await.unwrap();
        Ok(())
    }
}

fn yes() -> Consent {
    Consent {
        yes: true,
        typed: None,
    }
}

#[tokio::test]
async fn a_found_context_is_disabled_by_an_entry_and_cannot_be_removed() {
    let house = house(None);
    let error = house
        .change("context remove", "local", &yes())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Refused);
    assert!(
        error.to_string().contains("corral context disable local"),
        "{error}"
    );
    house
        .change("context disable", "local", &yes())
        .await
        .unwrap();
    assert!(
        house.text().contains("name = \"local\""),
        "{}",
        house.text()
    );
    assert!(house.text().contains("# keep"));
}

#[tokio::test]
async fn removing_a_protected_context_asks_for_its_name_and_clears_the_default() {
    let house = house(None);
    let plan = house.plan("context remove", "pve").await.unwrap();
    assert_eq!(plan.gate, Gate::Type { text: "pve".into() });
    let before = house.text();
    let error = house
        .change("context remove", "pve", &yes())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("--confirm pve"), "{error}");
    assert_eq!(house.text(), before);
    let typed = Consent {
        yes: false,
        typed: Some("pve".into()),
    };
    house.change("context remove", "pve", &typed).await.unwrap();
    assert!(!house.text().contains("pve"), "{}", house.text());
}

#[tokio::test]
async fn the_default_is_changed_and_a_wrong_name_gets_a_suggestion() {
    let house = house(None);
    house
        .change("context use", "local", &Consent::default())
        .await
        .unwrap();
    assert!(house.text().starts_with("default-context = \"local\"\n"));
    let error = house.plan("context use", "lcoal").await.unwrap_err();
    assert!(error.to_string().contains("Did you mean local?"), "{error}");
    let error = house.plan("context use", "old").await.unwrap_err();
    assert!(
        error.to_string().contains("corral context enable old"),
        "{error}"
    );
}

#[tokio::test]
async fn a_read_only_corral_changes_no_configuration() {
    let house = house(Some("corral runs read-only (--readonly)"));
    let before = house.text();
    let error = house
        .change("context disable", "local", &yes())
        .await
        .unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    assert_eq!(house.text(), before);
}

#[tokio::test]
async fn a_file_that_changed_meanwhile_is_a_conflict() {
    let house = house(None);
    let plan = house.plan("context use", "local").await.unwrap();
    let path = house.home.path().join("config/config.toml");
    std::fs::write(&path, format!("{}# more\n", house.text())).unwrap();
    let submitted = house
        .engine
        .submit(&plan, &yes(), &RunOptions::default())
        .await;
    assert_eq!(submitted.err().unwrap().kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn the_list_has_every_context_and_fails_only_for_configured_ones() {
    let house = house(None);
    let data = house
        .engine
        .read(Action::new("context list"))
        .await
        .unwrap();
    let Body::Contexts(rows) = &data.body else {
        panic!("{data:?}")
    };
    let health: Vec<(&str, &str, bool)> = rows
        .iter()
        .filter(|row| row.backend == KIND)
        .map(|row| (row.name.as_str(), row.health.as_str(), row.default))
        .collect();
    assert_eq!(
        health,
        [
            ("pve", "failed", true),
            ("local", "failed", false),
            ("old", "disabled", false)
        ]
    );
    assert_eq!(data.errors.len(), 1);
    let test = Action::new("context test").on("local".parse().unwrap());
    assert_eq!(house.engine.read(test).await.unwrap().errors.len(), 1);
}

//! Completion in a shell: scripts for three of them, and the hidden verb behind them, which answers from
//! files of earlier runs alone. It opens no connection, so it cannot hang.

use std::path::Path;

use crate::action::complete::{Candidates, FILES, Names, Seen, candidates};
use crate::action::fleet_api::filter::{Known, complete};
use crate::action::fleet_api::sort::natural;
use crate::model::{Dirs, Error, Instance, Result, encode_segment, shown};

/// What the scripts call: `corral __complete WORD… CURRENT`.
pub const HIDDEN_VERB: &str = "__complete";

const BASH: &str = r#"# bash completion for corral
_corral() {
    local cur line word
    COMPREPLY=()
    # The whole current word: an ID holds the characters that bash splits words at.
    local text=${COMP_LINE:0:COMP_POINT}
    local -a words
    read -r -a words <<< "$text"
    [[ $text == *[[:space:]] ]] && words+=("")
    cur=${words[-1]}
    # What bash puts in begins after the last character that it splits words at; with it, if it is @.
    local cut= at
    for ((at = ${#cur}; at > 0; at--)); do
        if [[ $COMP_WORDBREAKS == *"${cur:at-1:1}"* ]]; then
            cut=${cur:0:at}
            cut=${cut%@}
            break
        fi
    done
    while IFS=$'\t' read -r word _; do
        if [[ $word == :files ]]; then
            compopt -o default
        elif [[ $word == "$cur"* ]]; then
            COMPREPLY+=("${word#"$cut"}")
        fi
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *[=@] ]] && compopt -o nospace
}
complete -F _corral corral
"#;

const ZSH: &str = r#"#compdef corral
_corral() {
    local -a candidates
    local line word about
    while IFS= read -r line; do
        word=${line%%$'\t'*}
        about=${line#*$'\t'}
        if [[ $word == :files ]]; then
            _files
            return
        fi
        candidates+=("${word//:/\\:}:$about")
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    _describe corral candidates
}
if [ "$funcstack[1]" = "_corral" ]; then
    _corral "$@"
else
    compdef _corral corral
fi
"#;

const FISH: &str = r"# fish completion for corral
function __corral_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if string match -q ':files*' -- $line
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c corral -f -a '(__corral_complete)'
";

/// The script of a shell.
pub fn script(shell: &str) -> Result<String> {
    match shell {
        "bash" => Ok(BASH.to_owned()),
        "zsh" => Ok(ZSH.to_owned()),
        "fish" => Ok(FISH.to_owned()),
        other => Err(
            Error::invalid(format!("there is no completion for {:?}", shown(other)))
                .remedy("Shells: bash, zsh, fish"),
        ),
    }
}

/// Candidates for the last of `words`, one per line: the word, a tab, what it is.
pub fn answer(words: &[String], dirs: &Dirs) -> String {
    let mut found = candidates(words, &Remembered(dirs));
    let current = words.last().map_or("", String::as_str);
    found.retain(|(word, _)| word == FILES || word.starts_with(current));
    found
        .into_iter()
        .map(|(word, about)| format!("{}\t{}\n", shown(&word), shown(&about)))
        .collect()
}

/// Files of `dir` with this ending, by stem.
fn stems(dir: &Path, ending: &str) -> Vec<(String, std::path::PathBuf)> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(ending)?.to_owned();
            Some((name, path))
        })
        .collect()
}

fn read(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The instances that the earlier runs have seen.
fn cached(dirs: &Dirs) -> Vec<serde_json::Value> {
    stems(&dirs.cache.join("inventory"), ".json")
        .into_iter()
        .filter_map(
            |(_, path)| match read(&path)?.get_mut("instances")?.take() {
                serde_json::Value::Array(rows) => Some(rows),
                _ => None,
            },
        )
        .flatten()
        .collect()
}

/// Names out of files of earlier runs.
struct Remembered<'a>(&'a Dirs);

impl Names for Remembered<'_> {
    fn instances(&self) -> Vec<Seen> {
        let text = |row: &serde_json::Value, key| {
            let value = row.get(key).and_then(|v| v.as_str());
            value.unwrap_or_default().to_owned()
        };
        cached(self.0)
            .iter()
            .map(|row| Seen {
                id: text(row, "id"),
                name: text(row, "name"),
                state: text(row, "state"),
            })
            .collect()
    }

    fn contexts(&self) -> Vec<String> {
        contexts(self.0)
    }

    fn tasks(&self) -> Candidates {
        tasks(self.0)
    }

    fn snapshots(&self, id: &str) -> Vec<String> {
        let context = id.split('/').next().unwrap_or_default();
        let known = read(&snapshot_file(&self.0.cache, context));
        let names = known.as_ref().and_then(|all| all.get(id)?.as_array());
        let names = names.into_iter().flatten();
        names
            .filter_map(|name| name.as_str())
            .map(str::to_owned)
            .collect()
    }

    fn filter(&self, typed: &str) -> Candidates {
        let rows: Vec<Instance> = cached(self.0)
            .into_iter()
            .filter_map(|row| serde_json::from_value(row).ok())
            .collect();
        let contexts = contexts(self.0);
        let known = Known {
            rows: rows.iter(),
            contexts: &contexts,
        };
        complete(typed, known).wholes(typed)
    }
}

fn contexts(dirs: &Dirs) -> Vec<String> {
    let mut found: Vec<String> = stems(&dirs.cache.join("inventory"), ".json")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let config = std::fs::read_to_string(dirs.config.join("config.toml")).unwrap_or_default();
    if let Ok(table) = config.parse::<toml::Table>() {
        let named = table.get("context").and_then(|c| c.as_array());
        for context in named.into_iter().flatten() {
            let name = context.get("name").and_then(|name| name.as_str());
            found.extend(name.map(str::to_owned));
        }
    }
    found.sort_by(|a, b| natural(a, b));
    found.dedup();
    found
}

fn tasks(dirs: &Dirs) -> Candidates {
    let mut found: Candidates = stems(&dirs.state.join("tasks"), ".json")
        .into_iter()
        .map(|(id, path)| {
            let command = read(&path)
                .and_then(|task| Some(task.get("command")?.as_str()?.to_owned()))
                .unwrap_or_default();
            (id, command)
        })
        .collect();
    found.sort_by(|a, b| b.0.cmp(&a.0));
    found
}

/// Where the names of snapshots that were seen last are kept, per context.
fn snapshot_file(cache: &Path, context: &str) -> std::path::PathBuf {
    cache
        .join("snapshots")
        .join(format!("{}.json", encode_segment(context)))
}

/// Keeps the names of an instance's snapshots for completion. Nothing depends on it.
pub fn remember_snapshots<'a>(cache: &Path, id: &str, names: impl Iterator<Item = &'a str>) {
    let context = id.split('/').next().unwrap_or_default();
    let path = snapshot_file(cache, context);
    let mut all = match read(&path) {
        Some(serde_json::Value::Object(all)) => all,
        _ => serde_json::Map::new(),
    };
    all.insert(id.to_owned(), names.collect::<Vec<_>>().into());
    let text = serde_json::Value::Object(all).to_string();
    let _ = crate::action::write_cache(&path, |out| out.write_all(text.as_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str], dirs: &Dirs) -> Vec<String> {
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        answer(&words, dirs)
            .lines()
            .map(|line| line.split('\t').next().unwrap().to_owned())
            .collect()
    }

    fn home() -> (tempfile::TempDir, Dirs) {
        let root = tempfile::tempdir().unwrap();
        let dirs = Dirs::under(root.path());
        std::fs::create_dir_all(dirs.cache.join("inventory")).unwrap();
        std::fs::write(
            dirs.cache.join("inventory/hv1.json"),
            r#"{"instances":[{"id":"hv1/db10","name":"db10","state":"running"},{"id":"hv1/db2"},{"id":7},null]}"#,
        )
        .unwrap();
        std::fs::write(dirs.cache.join("inventory/torn.json"), "{\"inst").unwrap();
        std::fs::create_dir_all(&dirs.config).unwrap();
        std::fs::write(
            dirs.config.join("config.toml"),
            "[[context]]\nname = \"pve\"\n[[context]]\nname = 7\n",
        )
        .unwrap();
        (root, dirs)
    }

    #[test]
    fn req_07_ids_and_contexts_come_from_files() {
        let (_root, dirs) = home();
        assert_eq!(asked(&["stop", ""], &dirs), ["hv1/db2", "hv1/db10"]);
        assert_eq!(asked(&["stop", "hv1/db1"], &dirs), ["hv1/db10"]);
        assert_eq!(asked(&["stop", "db"], &dirs), ["db10"]);
        assert_eq!(asked(&["stop", "h"], &dirs), ["hv1/db2", "hv1/db10"]);
        assert_eq!(
            asked(&["list", "--context", ""], &dirs),
            ["hv1", "pve", "torn"]
        );
        assert_eq!(asked(&["list", "--context=p"], &dirs), ["--context=pve"]);
    }

    #[test]
    fn verbs_flags_and_choices() {
        let (_root, dirs) = home();
        assert!(asked(&["sna"], &dirs).contains(&"snapshot".to_owned()));
        assert!(asked(&["snapshot", ""], &dirs).contains(&"create".to_owned()));
        assert!(asked(&["stop", "--for"], &dirs).contains(&"--force".to_owned()));
        assert_eq!(asked(&["list", "-o", "js"], &dirs), ["json", "jsonpath="]);
        assert_eq!(asked(&["completion", "z"], &dirs), ["zsh"]);
        assert_eq!(asked(&["batch", ""], &dirs), [FILES]);
        assert!(asked(&["stop", "hv1/db2", "--on-error", ""], &dirs).contains(&"stop".to_owned()));
    }

    #[test]
    fn columns_and_settings_are_offered() {
        let (_root, dirs) = home();
        let columns = asked(&["list", "--columns", "st"], &dirs);
        assert_eq!(columns, ["state"]);
        let more = asked(&["list", "--columns=name,st"], &dirs);
        assert_eq!(more, ["--columns=name,state"]);
        assert!(!asked(&["list", "--columns", "name,n"], &dirs).contains(&"name,name".to_owned()));
        assert_eq!(asked(&["list", "--sort", "sta"], &dirs), ["state"]);
        assert!(asked(&["tasks", "--columns", ""], &dirs).contains(&"state".to_owned()));
        for verb in ["create", "import"] {
            let keys = asked(&[verb, "x", "--set", "b"], &dirs);
            assert!(keys.contains(&"bus=".to_owned()), "{verb}: {keys:?}");
        }
        let keys = asked(&["context", "set", "local", "--set", "prot"], &dirs);
        assert_eq!(keys, ["protected="]);
    }

    #[test]
    fn a_name_is_offered_where_it_means_one_machine() {
        let (_root, dirs) = home();
        let row =
            |id: &str, name: &str| serde_json::json!({"id": id, "name": name, "state": "running"});
        let rows = [
            row("hv1/1", "web"),
            row("hv1/2", "web"),
            row("hv1/3", "we $(x)"),
            row("hv1/4", "-we"),
            row("hv1/5", "id:we"),
            row("hv1/6", "well"),
        ];
        let cached = serde_json::json!({ "instances": rows });
        std::fs::write(dirs.cache.join("inventory/hv1.json"), cached.to_string()).unwrap();
        assert_eq!(asked(&["stop", "we"], &dirs), ["we%20%24%28x%29", "well"]);
        assert_eq!(asked(&["stop", "id"], &dirs), Vec::<String>::new());
        assert_eq!(asked(&["stop", "%2D"], &dirs), ["%2Dwe"]);
        assert_eq!(asked(&["stop", ""], &dirs).len(), 6, "IDs alone");
    }

    #[test]
    fn filters_field_by_field() {
        let (_root, dirs) = home();
        let mut row = Instance::new(
            "hv1/web".parse().unwrap(),
            crate::model::Kind::read("k"),
            crate::model::InstanceKind::Vm,
            crate::model::State::Running,
            jiff::Timestamp::UNIX_EPOCH,
        );
        row.tags = vec!["prod".to_owned()];
        let cached = serde_json::json!({ "instances": [row, { "id": 7 }] });
        std::fs::write(dirs.cache.join("inventory/hv1.json"), cached.to_string()).unwrap();
        assert_eq!(
            asked(&["list", "--filter", "sta"], &dirs),
            ["state:", "stale:"]
        );
        assert_eq!(
            asked(&["list", "--filter=kind:vm tag:"], &dirs),
            ["--filter=kind:vm tag:prod"]
        );
        assert_eq!(
            asked(&["stop", "--filter", "-context:h"], &dirs),
            ["-context:hv1"]
        );
    }

    #[test]
    fn snapshots_that_were_seen() {
        let (_root, dirs) = home();
        remember_snapshots(&dirs.cache, "hv1/db2", ["pre patch", "base"].into_iter());
        assert_eq!(
            asked(&["snapshot", "restore", "hv1/db2@"], &dirs),
            ["hv1/db2@pre%20patch", "hv1/db2@base"]
        );
    }

    #[test]
    fn a_missing_home_gives_nothing() {
        let dirs = Dirs::under(Path::new("/nonexistent/corral"));
        assert_eq!(asked(&["stop", ""], &dirs), Vec::<String>::new());
        assert!(!asked(&[], &dirs).is_empty());
    }
}

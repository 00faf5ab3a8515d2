//! Holds the floors of `ARCHITECTURE.md`: which part may name which, what may open sockets and
//! processes, and where a kind's word may stand. Works on tokens, so that a path inside a function
//! body or a macro counts as much as a `use` line; proves itself on planted violations.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "shared/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::path::Path;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Which floor may name which. `main` may name all.
const EDGES: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("link", &["model"]),
    ("backend", &["model", "link"]),
    ("console", &["model", "link"]),
    ("fleet", &["backend", "link", "model"]),
    ("doctor", &["fleet", "model"]),
    ("config", &["model"]),
    (
        "action",
        &[
            "doctor", "fleet", "console", "backend", "link", "model", "config",
        ],
    ),
    ("cli", &["action", "config", "model", "console"]),
    ("tui", &["action", "config", "model", "console"]),
    ("serve", &["action", "config", "model"]),
    // The helpers are programs of their own: of a backend they name only what is said to them.
    ("bin", &["model", "backend"]),
];

/// The only file with `unsafe` in it: what crate `virt` has no safe form for.
const UNSAFE: &str = "bin/corral-libvirt/ffi.rs";
/// All that a helper may name of the backend that starts it.
const WIRE: [&str; 4] = ["corral", "backend", "libvirt", "wire"];

const KIND_WORDS: &[&str] = &[
    "qemu",
    "libvirt",
    "incus",
    "kubevirt",
    "proxmox",
    "virtualbox",
    "vsphere",
    "xen",
    "nutanix",
    "peer",
];

/// Names of stream sockets and of the modules they come from.
const SOCKETS: &[&[&str]] = &[
    &["TcpStream"],
    &["UnixStream"],
    &["UdpSocket"],
    &["UnixDatagram"],
    &["TcpSocket"],
    &["UnixSocket"],
    &["tokio", "net"],
    &["rustix", "net"],
    &["os", "unix", "net"],
];
const LISTENERS: &[&[&str]] = &[&["TcpListener"], &["UnixListener"]];
const PROCESSES: &[&[&str]] = &[
    &["process", "Command"],
    &["process", "Child"],
    &["tokio", "process"],
    &["process", "kill_process"],
    &["process", "kill_process_group"],
    &["process", "pidfd_send_signal"],
];

#[derive(Debug, PartialEq, Eq)]
struct Violation {
    file: String,
    line: usize,
    what: String,
}

/// A path as it is written, groups expanded: `crate::{a, b::c}` is two.
struct Written {
    segments: Vec<String>,
    line: usize,
    /// Inline modules around it.
    depth: usize,
}

#[derive(Default)]
struct Scan {
    paths: Vec<Written>,
    literals: Vec<(String, usize)>,
    unsafes: Vec<usize>,
    /// `#[cfg(test)] mod NAME;`: files that are no source of the program.
    test_files: BTreeSet<String>,
}

fn is_test_attribute(tokens: &TokenStream) -> bool {
    let words: Vec<String> = tokens.clone().into_iter().map(|t| t.to_string()).collect();
    match words.first().map(String::as_str) {
        Some("test") => words.len() == 1,
        Some("cfg") => words.get(1).is_some_and(|arg| arg == "(test)"),
        _ => words.ends_with(&["test".to_owned()]) && words.contains(&"tokio".to_owned()),
    }
}

/// Position after the item that starts at `at`, attributes and visibility included.
fn end_of_item(tokens: &[TokenTree], mut at: usize, scan: &mut Scan) -> usize {
    let mut is_use = false;
    let mut module = None;
    let mut file: Option<String> = None;
    while let Some(token) = tokens.get(at) {
        match token {
            TokenTree::Ident(word) if word == "use" => is_use = true,
            TokenTree::Ident(word) if word == "mod" => {
                module = tokens.get(at + 1).map(ToString::to_string);
            }
            // `#[path = "x_tests.rs"]` before the module.
            TokenTree::Group(group) if group.stream().to_string().starts_with("path =") => {
                let text = group.stream().to_string();
                file = text.split('"').nth(1).map(|f| format!("@{f}"));
            }
            TokenTree::Punct(p) if p.as_char() == ';' => {
                scan.test_files.extend(file.or(module));
                return at + 1;
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace && !is_use => {
                return at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    at
}

fn is_colons(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |i: usize| matches!(tokens.get(i), Some(TokenTree::Punct(p)) if p.as_char() == ':');
    colon(at) && colon(at + 1)
}

/// Reads the path that starts with the identifier at `at`; returns the position after it.
fn read_path(
    tokens: &[TokenTree],
    mut at: usize,
    prefix: &[String],
    depth: usize,
    scan: &mut Scan,
) -> usize {
    let mut segments = prefix.to_vec();
    let mut line = 0;
    while let Some(TokenTree::Ident(word)) = tokens.get(at) {
        segments.push(word.to_string());
        line = word.span().start().line;
        at += 1;
        if !is_colons(tokens, at) {
            break;
        }
        match tokens.get(at + 2) {
            Some(TokenTree::Ident(_)) => at += 2,
            Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let mut i = 0;
                while i < inner.len() {
                    if matches!(inner[i], TokenTree::Ident(_)) {
                        i = read_path(&inner, i, &segments, depth, scan);
                    } else {
                        i += 1;
                    }
                }
                return at + 3;
            }
            _ => break,
        }
    }
    let renamed = matches!(tokens.get(at), Some(TokenTree::Ident(word)) if word == "as");
    if renamed && matches!(segments.last(), Some(s) if s == "crate" || s == "self") {
        segments.push("as".to_owned());
    }
    scan.paths.push(Written {
        segments,
        line,
        depth,
    });
    at
}

fn scan_tokens(stream: TokenStream, depth: usize, scan: &mut Scan) {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut at = 0;
    while at < tokens.len() {
        match &tokens[at] {
            TokenTree::Punct(p) if p.as_char() == '#' => {
                if let Some(TokenTree::Group(group)) = tokens.get(at + 1)
                    && group.delimiter() == Delimiter::Bracket
                    && is_test_attribute(&group.stream())
                {
                    at = end_of_item(&tokens, at + 2, scan);
                    continue;
                }
                at += 1;
            }
            TokenTree::Ident(word) if word == "mod" => {
                if let (Some(TokenTree::Ident(_)), Some(TokenTree::Group(body))) =
                    (tokens.get(at + 1), tokens.get(at + 2))
                {
                    scan_tokens(body.stream(), depth + 1, scan);
                    at += 3;
                } else {
                    at += 1;
                }
            }
            TokenTree::Ident(word) => {
                if word == "unsafe" {
                    scan.unsafes.push(word.span().start().line);
                }
                at = read_path(&tokens, at, &[], depth, scan);
            }
            TokenTree::Group(group) => {
                scan_tokens(group.stream(), depth, scan);
                at += 1;
            }
            TokenTree::Literal(literal) => {
                let text = match syn::Lit::new(literal.clone()) {
                    syn::Lit::Str(text) => Some(text.value()),
                    syn::Lit::ByteStr(bytes) => String::from_utf8(bytes.value()).ok(),
                    syn::Lit::CStr(text) => text.value().into_string().ok(),
                    _ => None,
                };
                if let Some(text) = text {
                    scan.literals.push((text, literal.span().start().line));
                }
                at += 1;
            }
            TokenTree::Punct(_) => at += 1,
        }
    }
}

/// The module a file is, below the crate: `backend/qemu/argv.rs` is `[backend, qemu, argv]`.
fn module_of(file: &Path) -> Vec<String> {
    let mut parts: Vec<String> = file
        .with_extension("")
        .components()
        .map(|c| c.as_os_str().to_string_lossy().into_owned())
        .collect();
    if parts
        .last()
        .is_some_and(|last| last == "mod" || last == "lib" || last == "main")
    {
        parts.pop();
    }
    parts
}

fn floor_of(file: &Path) -> String {
    let floors: Vec<&str> = EDGES.iter().map(|(floor, _)| *floor).collect();
    let top = module_of(file).first().cloned().unwrap_or_default();
    match file.to_str() {
        Some("lib.rs") => "lib".to_owned(),
        // Files of the program itself, beside the library's floors.
        Some("main.rs" | "start.rs") => "main".to_owned(),
        _ if floors.contains(&top.as_str()) => top,
        _ => format!("unknown floor {top:?}"),
    }
}

/// The floor a written path leads to, where it leads to one.
fn target(path: &Written, module: &[String]) -> Option<String> {
    let mut at = match path.segments.first()?.as_str() {
        "crate" | "corral" => 0,
        "super" | "self" => module.len() + path.depth,
        _ => return None,
    };
    let mut rest = path.segments.as_slice();
    while let Some((word, tail)) = rest.split_first() {
        match word.as_str() {
            "super" => at = at.checked_sub(1)?,
            "self" | "crate" | "corral" => {}
            _ => break,
        }
        rest = tail;
    }
    if at == 0 { rest.first().cloned() } else { None }
}

fn names(path: &Written, pattern: &[&str]) -> bool {
    path.segments
        .windows(pattern.len())
        .any(|window| window.iter().zip(pattern).all(|(a, b)| a == b))
}

fn check(file: &str, scan: &Scan) -> Vec<Violation> {
    let floor = floor_of(Path::new(file));
    let module = module_of(Path::new(file));
    let mut found = Vec::new();
    let mut add = |line: usize, what: String| {
        found.push(Violation {
            file: file.to_owned(),
            line,
            what,
        });
    };
    if floor.starts_with("unknown") {
        add(1, format!("{floor}: add it to the table of edges"));
        return found;
    }
    let allowed = EDGES
        .iter()
        .find(|(name, _)| *name == floor)
        .map(|(_, to)| *to);
    for path in &scan.paths {
        if let (Some(allowed), Some(to)) = (allowed, target(path, &module)) {
            let is_floor = EDGES.iter().any(|(name, _)| *name == to);
            if to == "as" || to.is_empty() {
                add(
                    path.line,
                    "the crate is renamed, which hides edges".to_owned(),
                );
            } else if is_floor && to != floor && !allowed.contains(&to.as_str()) {
                add(path.line, format!("{floor} names {to}"));
            }
        }
        if floor == "bin"
            && path.segments.first().is_some_and(|s| s == "corral")
            && !path.segments.iter().zip(WIRE).all(|(a, b)| a == b)
        {
            add(path.line, "a helper names more than its wire".to_owned());
        }
        let any = |patterns: &[&[&str]]| patterns.iter().any(|p| names(path, p));
        if any(SOCKETS) && floor != "link" && floor != "serve" {
            add(path.line, format!("{floor} touches a socket"));
        }
        if any(LISTENERS) && floor != "serve" {
            add(path.line, format!("{floor} listens"));
        }
        if any(PROCESSES) && floor != "link" {
            add(path.line, format!("{floor} touches a process"));
        }
    }
    for (text, line) in &scan.literals {
        if KIND_WORDS.contains(&text.as_str()) && floor != "backend" {
            add(*line, format!("{floor} knows the kind {text:?}"));
        }
    }
    for line in scan.unsafes.iter().filter(|_| file != UNSAFE) {
        add(*line, "unsafe".to_owned());
    }
    for path in scan.paths.iter().filter(|_| floor != "bin") {
        let first = path.segments.first().map_or("", String::as_str);
        if first == "virt_sys" || (first == "virt" && path.segments.len() > 1) {
            add(path.line, "only a helper is linked with libvirt".to_owned());
        }
    }
    found
}

fn scan_source(source: &str) -> Result<Scan, String> {
    // A file that is no Rust would tokenise to anything; parse it first.
    syn::parse_file(source).map_err(|e| e.to_string())?;
    let stream: TokenStream = source.parse().map_err(|e| format!("{e}"))?;
    let mut scan = Scan::default();
    scan_tokens(stream, 0, &mut scan);
    Ok(scan)
}

#[test]
fn the_floors_hold() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = sources::rust_files(&root);
    files.sort();
    assert!(files.len() > 20, "the source is where it was");
    let mut scans = Vec::new();
    let mut test_files = BTreeSet::new();
    for file in &files {
        let source = std::fs::read_to_string(file).unwrap();
        let scan = scan_source(&source).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let folder = match file.file_stem().and_then(|s| s.to_str()) {
            Some("mod" | "lib" | "main") => file.parent().unwrap().to_owned(),
            _ => file.with_extension(""),
        };
        for module in &scan.test_files {
            if let Some(path) = module.strip_prefix('@') {
                // Relative to the folder the file itself is in.
                test_files.insert(file.parent().unwrap().join(path));
                continue;
            }
            test_files.insert(folder.join(module).with_extension("rs"));
            test_files.insert(folder.join(module).join("mod.rs"));
        }
        scans.push((file, scan));
    }
    let found: Vec<String> = scans
        .iter()
        .filter(|(file, _)| !test_files.contains(*file))
        .flat_map(|(file, scan)| check(file.strip_prefix(&root).unwrap().to_str().unwrap(), scan))
        .map(|v| format!("src/{}:{}: {}", v.file, v.line, v.what))
        .collect();
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn planted_violations_are_found() {
    for (file, source, what) in [
        ("model/a.rs", "use crate::link::Duplex;", "model names link"),
        (
            "link/a.rs",
            "fn f() { crate::backend::registry::find(); }",
            "link names backend",
        ),
        (
            "tui/app.rs",
            "use crate::{model::Kind, fleet::{Fleet, cache}};",
            "tui names fleet",
        ),
        (
            "cli/render/table.rs",
            "use super::super::super::backend::registry;",
            "cli names backend",
        ),
        (
            "cli/mod.rs",
            "mod inner { fn f() { super::super::fleet::go() } }",
            "cli names fleet",
        ),
        (
            "config/a.rs",
            "fn f() { vec![crate::action::rows()] ; }",
            "config names action",
        ),
        (
            "doctor/a.rs",
            "type T = <crate::action::Engine as Clone>::X;",
            "doctor names action",
        ),
        ("tui/a.rs", "use crate as c;", "renamed"),
        (
            "action/a.rs",
            "fn f() { std::process::Command::new(x); }",
            "action touches a process",
        ),
        (
            "action/a.rs",
            "use std::{process::{Command, Stdio}};",
            "action touches a process",
        ),
        (
            "fleet/a.rs",
            "async fn f() { tokio::net::lookup_host(h).await; }",
            "fleet touches a socket",
        ),
        (
            "backend/qemu/a.rs",
            "use std::os::unix::net::UnixStream;",
            "backend touches a socket",
        ),
        (
            "link/a.rs",
            "fn f() { std::net::TcpListener::bind(a); }",
            "link listens",
        ),
        (
            "tui/a.rs",
            "fn f(k: &str) -> bool { k == \"qemu\" }",
            "tui knows the kind",
        ),
        (
            "cli/a.rs",
            "fn f() { println!(\"{}\", r#\"incus\"#) }",
            "cli knows the kind",
        ),
        ("link/a.rs", "fn f() { unsafe { g() } }", "unsafe"),
        (
            "bin/corral-libvirt/calls.rs",
            "fn f() { unsafe { g() } }",
            "unsafe",
        ),
        (
            "bin/corral-libvirt/calls.rs",
            "use corral::backend::libvirt::{INFO, wire};",
            "more than its wire",
        ),
        (
            "backend/libvirt/a.rs",
            "use virt::connect::Connect;",
            "linked with libvirt",
        ),
        ("misc/a.rs", "fn f() {}", "unknown floor"),
        (
            "cli/a.rs",
            "#[cfg(not(test))] fn f() { crate::fleet::g() }",
            "cli names fleet",
        ),
        (
            "cli/a.rs",
            "#[cfg(test)] use crate::{a, b}; fn f() { crate::fleet::g() }",
            "cli names fleet",
        ),
    ] {
        let found = check(file, &scan_source(source).unwrap());
        assert!(
            found.iter().any(|v| v.what.contains(what)),
            "{file}: {source}: wanted {what:?}, got {found:?}"
        );
    }
}

#[test]
fn honest_source_passes() {
    for (file, source) in [
        (
            "fleet/a.rs",
            "use crate::{backend::contract::Backend, link, model::*};",
        ),
        (
            "cli/a.rs",
            "use super::render; use clap::Command; fn f() { std::process::id(); }",
        ),
        (
            "cli/a.rs",
            "#[cfg(test)] mod tests { use crate::fleet::X; fn f() { unsafe {} } }",
        ),
        ("cli/a.rs", "#[test] fn t() { crate::fleet::g(\"qemu\") }"),
        (
            "cli/a.rs",
            "/// Speaks \"qemu\".\nconst A: &str = \"qemu and others\";",
        ),
        ("backend/qemu/mod.rs", "pub const WORD: &str = \"qemu\";"),
        ("link/qmp.rs", "use tokio::net::UnixStream;"),
        ("main.rs", "use corral::fleet::Fleet;"),
        (
            "bin/corral-libvirt/ffi.rs",
            "use corral::backend::libvirt::wire::{Job, Listed}; fn f() { unsafe { g() } }",
        ),
    ] {
        assert_eq!(
            check(file, &scan_source(source).unwrap()),
            [],
            "{file}: {source}"
        );
    }
}

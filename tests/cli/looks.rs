//! What is wrong with themes and keymaps, as a shell is told.

use super::harness::Home;

fn write(home: &Home, name: &str, text: &str) {
    let path = home.path().join(".config/corral").join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
fn config_check_and_doctor_name_every_fault_of_keymaps_and_themes_with_its_line() {
    let home = Home::new();
    write(
        &home,
        "config.toml",
        "discover = false\n[ui]\ntheme = \"drak\"\nkeymap = \"bogus\"\n",
    );
    write(
        &home,
        "keymaps/mine.toml",
        "name = \"x\"\n[everywhere]\n\"g\" = \"nope\"\n\"ctrl-foo\" = \"quit\"\n[inventory]\n\"p\" = \"start\"\n\"P\" = \"stop {ids}\"\n[inventroy]\n",
    );
    write(
        &home,
        "themes/night.toml",
        "name = 'night'\n[roles]\nok = { fg = 'greeen' }\n",
    );
    write(&home, "themes/torn.toml", "name = 'torn'\n[roles\n");
    let wanted = [
        (
            "config.toml:3:1",
            "there is no theme \"drak\". Did you mean \"dark\"?",
        ),
        (
            "config.toml:4:1",
            "there is no keymap \"bogus\". There are default, vim,",
        ),
        ("keymaps/mine.toml:1:1", "name is no table"),
        ("keymaps/mine.toml:3:1", "nope"),
        ("keymaps/mine.toml:4:1", "\"ctrl-foo\" is no key"),
        ("keymaps/mine.toml:6:1", "write \"start {ids}\""),
        ("keymaps/mine.toml:8:2", "Did you mean [inventory]?"),
        ("themes/night.toml:3:13", "\"greeen\" is no colour"),
        ("themes/torn.toml:2:", ""),
    ];
    let check = home.run(&["--headless", "config", "check", "-o", "json"]);
    assert_eq!(check.code, 1, "{}", check.out);
    let json = check.json();
    let faults: Vec<(String, String)> = json["data"]["problems"]
        .as_array()
        .or_else(|| json["problems"].as_array())
        .or_else(|| json["data"].as_array())
        .unwrap_or_else(|| panic!("{json}"))
        .iter()
        .map(|fault| {
            let place = format!(
                "{}:{}:{}",
                fault["file"].as_str().unwrap(),
                fault["line"],
                fault["column"]
            );
            (place, fault["message"].as_str().unwrap().to_owned())
        })
        .collect();
    let doctor = home.run(&["--headless", "doctor", "-o", "json"]).out;
    for (place, why) in wanted {
        let told = faults
            .iter()
            .any(|(at, text)| at.contains(place) && text.contains(why));
        assert!(told, "{place}: {why}\n{faults:#?}");
        assert!(doctor.contains(place), "{place}\n{doctor}");
    }
    assert_eq!(faults.len(), wanted.len(), "{faults:#?}");
    // Keys are no business of a command.
    let list = home.run(&["--headless", "list"]);
    assert!(!list.err.contains("mine.toml"), "{}", list.err);
}

#[test]
fn a_key_that_hides_others_is_a_warning_that_says_what_wins() {
    let home = Home::new();
    write(
        &home,
        "config.toml",
        "discover = false\n[ui]\nkeymap = \"mine\"\n",
    );
    write(
        &home,
        "keymaps/mine.toml",
        "[inventory]\n\"p\" = \"start {ids}\"\n[everywhere]\n\"? x\" = \"ui quit\"\n",
    );
    let check = home.run(&["--headless", "config", "check"]);
    assert_eq!(check.code, 0, "{}{}", check.out, check.err);
    let said = format!("{}{}", check.out, check.err);
    assert!(said.contains("mine.toml:2:1"), "{said}");
    assert!(said.contains("start {ids} wins"), "{said}");
    assert!(said.contains("\"p s\" and 7 more"), "{said}");
    assert!(said.contains("never reached"), "{said}");
}

#[test]
fn commands_that_a_simulated_fleet_shows_reach_it_again() {
    let home = Home::new();
    let flag = "corral --demo=up=hv2+vc-old,pace=0,latency=0ms ";
    let plan = home.demo(&["protect", "local/web", "--dry-run", "-o", "json"]);
    assert!(
        plan.out.contains(&format!("{flag}protect local/web")),
        "{}",
        plan.out
    );
    let delete = home.demo(&["delete", "local/web"]);
    let said = format!("{}{}", delete.out, delete.err);
    assert!(said.contains(flag), "{said}");
    assert!(
        !said.contains("corral delete") && !said.contains("corral stop"),
        "{said}"
    );
    let none = home.demo(&["info", "nosuch"]);
    assert!(none.err.contains(&format!("{flag}list")), "{}", none.err);
    let either = home.demo(&["list", "--filter", "state:paused or state:running"]);
    assert!(
        either.err.contains("state:paused,running"),
        "{}",
        either.err
    );
}

#[test]
fn a_simulated_fleet_takes_the_view_from_the_files_and_nothing_else() {
    let home = Home::new();
    write(
        &home,
        "config.toml",
        "readonly = true\n[ui]\nkeymap = \"bogus\"\n[[context]]\nname = \"real\"\nbackend = \"nosuch\"\n",
    );
    let check = home.run(&["--headless", "--demo", "config", "check"]);
    let said = format!("{}{}", check.out, check.err);
    assert_eq!(check.code, 1, "{said}");
    assert!(
        said.contains("config.toml:3:1") && said.contains("bogus"),
        "{said}"
    );
    assert!(!said.contains("nosuch"), "{said}");
    let contexts = home.demo(&["context", "list"]);
    assert!(!contexts.out.contains("real"), "{}", contexts.out);
    let stop = home.demo(&["stop", "local/web"]);
    assert_eq!(stop.code, 0, "{}", stop.err);
    assert_eq!(
        home.files().len(),
        1,
        "nothing is written: {:?}",
        home.files()
    );
}

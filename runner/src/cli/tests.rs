//! The tree of commands as a whole, and what each of them says of itself.

use clap::CommandFactory;

use super::*;

fn help(path: &[&str]) -> String {
    let mut command = Cli::command().term_width(100);
    // Environment variables of whoever runs the test must not show.
    command.build();
    let mut found = &mut command;
    for name in path {
        found = found.find_subcommand_mut(name).unwrap();
    }
    found.render_long_help().to_string()
}

#[test]
fn the_tree_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_command_explains_itself() {
    insta::assert_snapshot!("help", help(&[]));
    for path in [
        &["push"][..],
        &["enqueue"],
        &["run"],
        &["job"],
        &["job", "list"],
        &["job", "get"],
        &["job", "result"],
        &["job", "wait"],
        &["job", "logs"],
        &["job", "cancel"],
        &["kind"],
        &["kind", "list"],
        &["kind", "get"],
        &["kind", "activate"],
        &["kind", "set"],
        &["schedule"],
        &["schedule", "set"],
        &["module"],
        &["module", "list"],
        &["module", "prune"],
        &["key", "create"],
        &["runner", "list"],
        &["bench"],
    ] {
        insta::assert_snapshot!(format!("help_{}", path.join("_")), help(path));
    }
}

#[test]
fn a_runner_is_run_without_a_word_and_listed_with_one() {
    let parsed = |words: &[&str]| Cli::try_parse_from(words).unwrap();
    let run = parsed(&["stokehold", "runner"]);
    assert!(matches!(run.command, Command::Runner(RunnerArgs { look: None, .. })));
    for words in
        [["stokehold", "runner", "list", "--json"], ["stokehold", "--json", "runner", "list"]]
    {
        let list = parsed(&words);
        assert!(list.json, "{words:?}");
        assert!(matches!(list.command, Command::Runner(RunnerArgs { look: Some(_), .. })));
    }
}

#[test]
fn flags_that_make_no_sense_together_are_usage_errors() {
    for words in [
        &["stokehold", "enqueue", "k", "--in", "5m", "--at", "2027-01-01T00:00:00Z"][..],
        &["stokehold", "enqueue", "K!"],
        &["stokehold", "enqueue", "k", "--count", "0"],
        &["stokehold", "enqueue", "k", "--count", "2", "--output", "f"],
        &["stokehold", "job", "get", "x"],
        &["stokehold", "job", "list", "--state", "done"],
        &["stokehold", "job", "list", "--all", "--limit", "3"],
        &["stokehold", "kind", "set", "k"],
        &["stokehold", "push", "f.wasm"],
        &["stokehold", "run", "f.wasm", "--limit", "fule=3"],
        &["stokehold", "bench", "--rate", "0"],
        &["stokehold", "bench", "--repeat", "0"],
        &["stokehold", "bench", "--payload-bytes", "9", "--payload-file", "f"],
        &["stokehold", "bench", "--all", "--scenario", "flood"],
    ] {
        let error = Cli::try_parse_from(words).unwrap_err();
        assert_eq!(error.exit_code(), Exit::Usage as i32, "{words:?}: {error}");
    }
}

#[test]
fn negative_priorities_and_server_flags_are_taken_after_any_word() {
    for words in [
        &["stokehold", "enqueue", "k", "--priority", "-5", "--url", "http://x:1", "--key", "k"][..],
        &["stokehold", "job", "--url", "http://x:1", "list"],
        &["stokehold", "job", "list", "--url", "http://x:1"],
        &["stokehold", "kind", "set", "k", "--priority", "-1000"],
    ] {
        Cli::try_parse_from(words).unwrap();
    }
}

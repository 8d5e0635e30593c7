//! The README's tour, run as it stands.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::dev::Home;
use crate::stage::binary;

/// Where the tour keeps its data; the test keeps it elsewhere.
const DATA: &str = "/tmp/stokehold-tour";

/// A fenced block and the word after its fence.
struct Block {
    language: String,
    text: String,
}

fn tour() -> Vec<Block> {
    let readme = std::fs::read_to_string(root().join("README.md")).unwrap();
    let (_, rest) = readme.split_once("\n## A tour").expect("the README has a tour");
    let (tour, _) = rest.split_once("\n## ").expect("the tour ends");
    // Between fences stand text and blocks by turns.
    let block = |part: &str| {
        let (language, text) = part.split_once('\n').unwrap_or((part, ""));
        Block { language: language.to_owned(), text: text.to_owned() }
    };
    tour.split("```").skip(1).step_by(2).map(block).collect()
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_tour_of_the_readme_goes_as_it_is_written() {
    let home = Home::make();
    let (_dev, _up) = home.start();
    let blocks = tour();
    let commands: Vec<&str> = blocks
        .iter()
        .filter(|block| block.language == "sh")
        .map(|block| block.text.as_str())
        .collect();
    let start = commands.iter().position(|text| text.contains("stokehold dev")).unwrap();
    assert!(commands[start].contains(&format!("stokehold dev --data-dir {DATA}")));
    let last = commands.len() - 1;
    assert!(commands[last].contains("rm -rf"), "the last block cleans up");
    let script = commands[start + 1..last]
        .join("\n")
        .replace(DATA, home.data().to_str().unwrap())
        .replace("target/tour", home.path().join("tour").to_str().unwrap());
    let path = format!(
        "{}:{}",
        binary().parent().unwrap().display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(root())
        .env("PATH", path)
        // Where `dev` left address and key for the other commands.
        .env("STOKEHOLD_STATE_DIR", home.path())
        .env_remove("STOKEHOLD_URL")
        .env_remove("STOKEHOLD_KEY")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    let promised: Vec<&str> = blocks
        .iter()
        .filter(|block| block.language == "text")
        .flat_map(|block| block.text.lines())
        // Lines without times, sizes and digests.
        .filter(|line| {
            (line.starts_with("job ") && line.contains(|c: char| c.is_ascii_digit()))
                && (line.contains(" completed") || line.contains(" discarded"))
                || line.starts_with("error: ")
                || line.contains("is active")
                || line.starts_with("{\"order\":")
        })
        .collect();
    assert!(promised.len() > 8, "the tour shows what to expect: {promised:?}");
    for line in promised {
        assert!(said.contains(line.trim_end()), "{line:?} is not in:\n{said}");
    }
}

//! The description says what the server does, and the pages say what the codes mean.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::LazyLock;

use axum::http::Method;
use serde_json::Value;
use stokehold_sandbox::{MissingImport, Refusal};

use crate::{Code, openapi};

/// An operation of the description.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) wants_key: bool,
    codes: Vec<String>,
    value: Value,
}

/// Every operation of the description.
pub(crate) fn operations() -> &'static [Operation] {
    static OPERATIONS: LazyLock<Vec<Operation>> = LazyLock::new(read);
    &OPERATIONS
}

fn read() -> Vec<Operation> {
    let api = serde_json::to_value(openapi()).unwrap();
    let mut operations = Vec::new();
    for (path, item) in api["paths"].as_object().unwrap() {
        for (method, value) in item.as_object().unwrap() {
            let codes = value["x-problem-codes"].as_array().unwrap();
            operations.push(Operation {
                method: method.to_uppercase().parse().unwrap(),
                path: path.clone(),
                wants_key: value["security"][0].get("key").is_some(),
                codes: codes.iter().map(|code| code.as_str().unwrap().to_owned()).collect(),
                value: value.clone(),
            });
        }
    }
    operations
}

/// Fails unless the operation that was called lists the code that was answered.
pub(crate) fn assert_documented(method: &Method, path: &str, code: Code) {
    let fits = |template: &str| {
        let (wanted, found): (Vec<_>, Vec<_>) =
            (template.split('/').collect(), path.split('/').collect());
        let same = |(wanted, found): (&&str, &&str)| wanted.starts_with('{') || wanted == found;
        wanted.len() == found.len() && wanted.iter().zip(&found).all(same)
    };
    let mut called: Vec<&Operation> = operations()
        .iter()
        .filter(|operation| operation.method == *method && fits(&operation.path))
        .collect();
    // A path without variables goes before one with.
    called.sort_by_key(|operation| operation.path.matches('{').count());
    if let Some(operation) = called.first()
        && !matches!(code, Code::RouteUnknown | Code::RouteMethod)
    {
        assert!(
            operation.codes.iter().any(|listed| listed == code.as_str()),
            "{method} {path} answered {} and its description does not list it",
            code.as_str()
        );
    }
}

#[test]
fn the_description_has_not_changed_unseen() {
    insta::assert_snapshot!("openapi", openapi().to_pretty_json().unwrap());
}

#[test]
fn every_operation_has_an_id_a_summary_and_schemas_for_all_it_answers() {
    let mut ids = BTreeSet::new();
    for operation in operations() {
        let id = operation.value["operationId"].as_str().unwrap_or_else(|| panic!("{operation:?}"));
        assert!(ids.insert(id.to_owned()), "{id} stands twice");
        assert!(operation.value["summary"].is_string(), "{id} has no summary");
        for (status, response) in operation.value["responses"].as_object().unwrap() {
            let content =
                response["content"].as_object().unwrap_or_else(|| panic!("{id} {status}"));
            for (media_type, body) in content {
                assert!(body["schema"].is_object(), "{id} {status} {media_type} has no schema");
                let is_problem = media_type == "application/problem+json";
                assert_eq!(is_problem, status.as_str() >= "400", "{id} {status} {media_type}");
            }
        }
    }
}

#[test]
fn every_code_is_answered_by_some_operation_or_stands_for_a_path_without_one() {
    let answered: BTreeSet<String> =
        operations().iter().flat_map(|operation| operation.codes.clone()).collect();
    let without: Vec<&str> = Code::ALL
        .iter()
        .map(|code| code.as_str())
        .filter(|code| !answered.contains(*code))
        .collect();
    assert_eq!(without, ["route.unknown", "route.method"]);
}

#[test]
fn every_code_has_a_page_and_every_page_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors");
    let index = std::fs::read_to_string(folder.join("README.md")).unwrap();
    let mut pages: BTreeSet<String> = BTreeSet::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name != "README.md" {
            pages.insert(name.strip_suffix(".md").expect("only pages stand here").to_owned());
        }
    }
    for code in Code::ALL {
        let text = code.as_str();
        assert!(pages.remove(text), "docs/errors/{text}.md is missing");
        assert!(index.contains(&format!("]({text}.md)")), "the index lacks {text}");
        let page = std::fs::read_to_string(folder.join(format!("{text}.md"))).unwrap();
        assert!(page.starts_with(&format!("# {text}\n")), "{text}.md has another heading");
        let status = format!("HTTP {}", code.status().as_u16());
        assert!(page.contains(&status), "{text}.md does not say {status}");
        assert!(page.contains(code.title()), "{text}.md does not say {:?}", code.title());
    }
    assert!(pages.is_empty(), "pages without a code: {pages:?}");
}

#[test]
fn every_refusal_of_the_sandbox_is_a_public_code() {
    let text = String::new;
    let refusals = [
        Refusal::TooLarge { size_bytes: 1, most_bytes: 1 },
        Refusal::NotWasm { found: "", advice: "" },
        Refusal::Precompiled,
        Refusal::Invalid { reason: text(), offset: 0 },
        Refusal::Proposal { proposal: "", reason: text(), offset: 0, advice: "" },
        Refusal::Structure { what: "", number: 1, most: 1, offset: 0, advice: "" },
        Refusal::Export { reason: text() },
        Refusal::Import(vec![MissingImport { name: text(), advice: text() }]),
        Refusal::Componentise { reason: text() },
        Refusal::Shape { reason: text() },
        Refusal::Compile { reason: text() },
    ];
    for refusal in refusals {
        assert!(Code::find(refusal.code()).is_some(), "{} is not in the list", refusal.code());
    }
}

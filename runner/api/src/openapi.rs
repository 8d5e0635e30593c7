//! The OpenAPI 3.1 description: generated from the handlers, completed with what every operation
//! has in common, and served.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::Router;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;
use serde_json::{Value, json};
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{Operation, PathItem};
use utoipa::openapi::schema::{ArrayItems, KnownFormat, ObjectBuilder, Schema, SchemaFormat, Type};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Ref, RefOr,
    ResponseBuilder, tag::TagBuilder,
};
use utoipa::{PartialSchema, ToSchema};
use utoipa_axum::router::OpenApiRouter;

use crate::codes::Code;
use crate::routes;
use crate::server::ApiState;
use crate::wire::{FieldError, PROBLEM_MEDIA_TYPE, Problem};

/// The extension in which an operation lists its problem codes: those of its own in the source, all
/// that it can answer in the description.
const CODES: &str = "x-problem-codes";
const KEY: &str = "key";

const ABOUT: &str = "Background jobs out of PostgreSQL, each in its own WebAssembly sandbox.\n\n\
    Every error is a problem of RFC 9457, `application/problem+json`: its `code` is stable and has \
    a page in the documentation, its `type` is `urn:stokehold:error:` and the code, its `instance` \
    is the id of the request. Ids are text. Requests refuse fields that they do not know; answers \
    may gain some.";

const TAGS: [(&str, &str); 8] = [
    ("jobs", "Make, look at, cancel and retry jobs."),
    ("kinds", "What jobs are called, how they are treated and which release runs them."),
    ("pauses", "Queues and kinds of which nothing is started for a while."),
    ("schedules", "What makes jobs at the times of a cron expression."),
    ("modules", "Uploaded handlers."),
    ("runners", "Who runs jobs."),
    ("keys", "API keys."),
    ("health", "How the process is; no key is needed."),
];

/// The description of the API.
pub fn openapi() -> OpenApi {
    let open = routes::open().into_openapi();
    let mut keyed = routes::keyed().into_openapi();
    for operation in operations(&mut keyed) {
        operation.security = Some(vec![SecurityRequirement::new(KEY, [""; 0])]);
    }
    let routes =
        OpenApiRouter::<ApiState>::with_openapi(about().merge_from(open).merge_from(keyed));
    let mut api = routes.into_openapi();
    for operation in operations(&mut api) {
        add_problems(operation);
    }
    let components = api.components.get_or_insert_default();
    for (name, schema) in [("Problem", Problem::schema()), ("FieldError", FieldError::schema())] {
        components.schemas.insert(name.to_owned(), schema);
    }
    refer_to_items(&mut components.schemas);
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("An API key: `sth_…`."))
        .build();
    components.add_security_scheme(KEY, SecurityScheme::Http(key));
    api
}

/// Lists repeat the schema of what they list: names it instead, so that clients get one type of
/// each.
fn refer_to_items(schemas: &mut BTreeMap<String, RefOr<Schema>>) {
    let names: Vec<String> = schemas.keys().cloned().collect();
    for (name, schema) in schemas.iter_mut() {
        let Some(item) = name.strip_prefix("List_") else { continue };
        if let RefOr::T(Schema::Object(list)) = schema
            && let Some(RefOr::T(Schema::Array(items))) = list.properties.get_mut("items")
            && names.iter().any(|name| name == item)
        {
            let item = RefOr::Ref(Ref::from_schema_name(item));
            items.items = ArrayItems::RefOrSchema(Box::new(item));
        }
    }
}

fn about() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Stokehold")
        .version("1")
        .description(Some(ABOUT))
        .license(Some(
            LicenseBuilder::new()
                .name("MIT OR Apache-2.0")
                .identifier(Some("MIT OR Apache-2.0"))
                .build(),
        ))
        .build();
    let tag = |(name, text)| TagBuilder::new().name(name).description(Some(text)).build();
    OpenApiBuilder::new().info(info).tags(Some(TAGS.map(tag))).build()
}

/// The route that serves it.
pub(crate) fn route() -> Router<ApiState> {
    let text = openapi().to_pretty_json().unwrap_or_else(|error| {
        // Nothing in it can fail to be JSON; if it did, the server would still start.
        tracing::error!(error.cause = %error, "the OpenAPI description could not be written");
        "{}".to_owned()
    });
    let answer = move || async move {
        ([(header::CONTENT_TYPE, "application/json")], text.clone()).into_response()
    };
    Router::new().route("/openapi.json", get(answer))
}

fn operations(api: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    api.paths.paths.values_mut().flat_map(|item| {
        let PathItem { get, put, post, delete, patch, .. } = item;
        [get, put, post, delete, patch].into_iter().filter_map(Option::as_mut)
    })
}

/// Adds the problems that an operation can answer: its own and those that follow from its form.
fn add_problems(operation: &mut Operation) {
    let codes = codes_of(operation);
    let mut by_status = BTreeMap::<u16, Vec<&str>>::new();
    for code in &codes {
        by_status.entry(code.status().as_u16()).or_default().push(code.as_str());
    }
    for (status, codes) in by_status {
        let listed: Vec<String> = codes.iter().map(|code| format!("`{code}`")).collect();
        let content =
            ContentBuilder::new().schema(Some(Ref::from_schema_name(Problem::name()))).build();
        let response = ResponseBuilder::new()
            .description(format!("A problem: {}.", listed.join(", ")))
            .content(PROBLEM_MEDIA_TYPE, content)
            .build();
        operation.responses.responses.insert(status.to_string(), RefOr::T(response));
    }
    let mut extensions = ExtensionsBuilder::new().build();
    extensions.insert(CODES.to_owned(), json!(codes));
    operation.extensions = Some(extensions);
}

fn codes_of(operation: &Operation) -> Vec<Code> {
    let own = operation.extensions.as_ref().and_then(|extensions| extensions.get(CODES));
    let own = own.and_then(Value::as_array).into_iter().flatten();
    let mut codes: Vec<Code> = own.filter_map(Value::as_str).filter_map(Code::find).collect();
    codes.extend([Code::RequestTimeout, Code::ServerBusy, Code::ServerInternal]);
    let wants_key =
        operation.security.iter().flatten().any(|wanted| *wanted != SecurityRequirement::default());
    if wants_key {
        codes.extend([Code::AuthKey, Code::DatabaseUnavailable]);
    }
    if operation.parameters.as_ref().is_some_and(|parameters| !parameters.is_empty()) {
        codes.push(Code::RequestParameter);
    }
    if let Some(RefOr::T(body)) = &operation.request_body {
        codes.push(Code::RequestBody);
        if !codes.contains(&Code::ModuleTooLarge) {
            codes.push(Code::RequestTooLarge);
        }
        if body.content.contains_key("application/json") {
            codes.extend([Code::RequestJson, Code::RequestMediaType, Code::RequestInvalid]);
        }
    }
    let mut sorted: Vec<Code> = Vec::new();
    for &code in Code::ALL {
        if codes.contains(&code) {
            sorted.push(code);
        }
    }
    sorted
}

/// A body of any bytes.
pub(crate) struct Bytes;

impl PartialSchema for Bytes {
    fn schema() -> RefOr<Schema> {
        let object = ObjectBuilder::new().schema_type(Type::String);
        let format = SchemaFormat::KnownFormat(KnownFormat::Binary);
        RefOr::T(Schema::Object(object.format(Some(format)).build()))
    }
}

impl ToSchema for Bytes {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Bytes")
    }
}

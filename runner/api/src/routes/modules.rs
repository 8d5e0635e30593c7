//! Modules: upload, look, prune.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use stokehold_domain::{Digest, EngineLimits};
use stokehold_queue::{ModuleRecord, NewModule};
use stokehold_sandbox::Admission;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::{JsonBody, PathParam, read_body};
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{List, ModuleInfo, PruneRequest, Pruned, UploadedModule};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_modules, put_module))
        .routes(routes!(get_module))
        .routes(routes!(prune_modules))
}

/// Upload a module
///
/// The body is the `.wasm` itself, 64 MiB at most: a component that exports
/// `stokehold:job/handler`, a WASI preview-1 command, or a `wasi:cli/run` component. It is looked
/// at, compiled and stored under the sha256 of the stored bytes; the same upload again changes
/// nothing. A core module that carries component metadata is stored as the component made of it,
/// and the digest is that component's.
#[utoipa::path(
    put, path = "/v1/modules", tag = "modules", operation_id = "putModule",
    request_body(content = inline(crate::openapi::Bytes), content_type = "application/wasm"),
    extensions(("x-problem-codes" = json!([
        Code::ModuleTooLarge, Code::ModuleNotWasm, Code::ModulePrecompiled, Code::ModuleInvalid,
        Code::ModuleProposal, Code::ModuleStructure, Code::ModuleComponentise, Code::ModuleShape,
        Code::ModuleCompile, Code::ContractExport, Code::ContractImport
    ]))),
    responses(
        (status = 201, description = "The module is new.", body = UploadedModule),
        (status = 200, description = "The module was there.", body = UploadedModule),
    ),
)]
async fn put_module(
    State(state): State<ApiState>,
    request: Request,
) -> Result<(StatusCode, HeaderMap, Json<UploadedModule>), ApiError> {
    let _place = state.large_body_place().await?;
    let upload = read_body(request.into_body(), EngineLimits::MODULE_BYTES).await.map_err(named)?;
    let (bytes, digest, report) = admit(&state, upload).await?;
    state.sandbox.load(digest, &bytes).await?;
    let new =
        state.database.put_module(NewModule { digest, bytes: &bytes, report: &report }).await?;
    let Some(module) = state.database.module(digest).await? else {
        return Err(ApiError::new(
            Code::ModuleUnknown,
            "The module was pruned as it was uploaded.",
        )
        .hint("Upload it again."));
    };
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    let mut headers = HeaderMap::new();
    if let Ok(location) = HeaderValue::from_str(&format!("/v1/modules/{digest}")) {
        headers.insert(header::LOCATION, location);
    }
    Ok((status, headers, Json(UploadedModule { module: module.into(), new })))
}

/// The bytes to store, their digest and the report, from a look at the upload on a thread that may
/// be busy for a while.
async fn admit(state: &ApiState, upload: Bytes) -> Result<(Bytes, Digest, Value), ApiError> {
    let sandbox = state.sandbox.clone();
    let looked = tokio::task::spawn_blocking(move || {
        let mut admission = sandbox.admit(&upload)?;
        Ok(match admission.component_bytes.take() {
            None => (upload, admission.digest, admission),
            Some(component) => {
                let digest = Digest(Sha256::digest(&component).into());
                (Bytes::from(component), digest, admission)
            }
        })
    });
    let looked: Result<(Bytes, Digest, Admission), ApiError> = looked
        .await
        .map_err(|error| ApiError::internal(format!("the look at an upload broke off: {error}")))?;
    let (bytes, digest, admission) = looked?;
    let report = serde_json::to_value(&admission)
        .map_err(|error| ApiError::internal(format!("an admission report is not JSON: {error}")))?;
    Ok((bytes, digest, report))
}

fn named(error: ApiError) -> ApiError {
    let most = EngineLimits::MODULE_BYTES;
    match error.code() {
        Code::RequestTooLarge => {
            ApiError::new(Code::ModuleTooLarge, format!("The upload is over {most} bytes."))
                .hint("Strip debug sections, or build with optimisation for size.")
        }
        _ => error,
    }
}

/// List modules
///
/// Newest first, at most 1,000.
#[utoipa::path(
    get, path = "/v1/modules", tag = "modules", operation_id = "listModules",
    responses((status = 200, description = "The modules.", body = List<ModuleInfo>)),
)]
async fn list_modules(State(state): State<ApiState>) -> Result<Json<List<ModuleInfo>>, ApiError> {
    let modules = state.database.modules().await?;
    Ok(Json(modules.into_iter().map(ModuleInfo::from).collect()))
}

/// Look at a module
#[utoipa::path(
    get, path = "/v1/modules/{digest}", tag = "modules", operation_id = "getModule",
    params(("digest" = String, Path,
        description = "64 hexadecimal digits, `sha256:` before or not")),
    extensions(("x-problem-codes" = json!([Code::ModuleUnknown]))),
    responses((status = 200, description = "The module.", body = ModuleInfo)),
)]
async fn get_module(
    State(state): State<ApiState>,
    PathParam(digest): PathParam<Digest>,
) -> Result<Json<ModuleInfo>, ApiError> {
    let unknown = || {
        ApiError::new(Code::ModuleUnknown, format!("There is no module {digest}."))
            .hint("The list at /v1/modules has those there are.")
    };
    Ok(Json(state.database.module(digest).await?.ok_or_else(unknown)?.into()))
}

/// Delete modules that no release runs
///
/// Only those that were uploaded longer ago than asked for. What a release runs is never deleted.
#[utoipa::path(
    post, path = "/v1/modules/prune", tag = "modules", operation_id = "pruneModules",
    request_body = PruneRequest,
    responses((status = 200, description = "Which were, or would be, deleted.", body = Pruned)),
)]
async fn prune_modules(
    State(state): State<ApiState>,
    JsonBody(prune): JsonBody<PruneRequest>,
) -> Result<Json<Pruned>, ApiError> {
    let dry_run = prune.dry_run;
    let older_than_s = prune.older_than_s.min(MOST_AGE_S) as f64;
    let digests = state.database.prune_modules(older_than_s, dry_run).await?;
    Ok(Json(Pruned { digests, dry_run }))
}

/// A hundred years: what is older is as old as this, and PostgreSQL's times reach as far.
const MOST_AGE_S: u64 = 100 * 366 * 24 * 60 * 60;

impl From<ModuleRecord> for ModuleInfo {
    fn from(module: ModuleRecord) -> Self {
        let abi = module.report.get("abi").and_then(Value::as_str).unwrap_or("unknown");
        ModuleInfo {
            digest: module.digest,
            abi: abi.to_owned(),
            size_bytes: module.size_bytes.try_into().unwrap_or_default(),
            releases: module.releases.try_into().unwrap_or_default(),
            created_at: module.created_at,
            report: module.report,
        }
    }
}

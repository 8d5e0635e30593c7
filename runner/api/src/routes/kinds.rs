//! Kinds and their releases.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use stokehold_domain::{BackoffForm, Limits, RetryPolicy, check_name, retry};
use stokehold_queue::{Kind, KindPolicy, QueueError, RefusalCode, Release};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::{JsonBody, KindName, OptionalJsonBody, PathParam};
use crate::new_job::MOST_PRIORITY;
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{Activation, KindChange, KindInfo, List, NewRelease, ReleaseInfo};

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_kinds))
        .routes(routes!(get_kind, put_kind))
        .routes(routes!(list_releases, create_release))
        .routes(routes!(activate_release))
}

/// List kinds
///
/// By name, at most 10,000.
#[utoipa::path(
    get, path = "/v1/kinds", tag = "kinds", operation_id = "listKinds",
    responses((status = 200, description = "The kinds.", body = List<KindInfo>)),
)]
async fn list_kinds(State(state): State<ApiState>) -> Result<Json<List<KindInfo>>, ApiError> {
    Ok(Json(state.database.kinds().await?.into_iter().map(KindInfo::from).collect()))
}

/// Look at a kind
#[utoipa::path(
    get, path = "/v1/kinds/{kind}", tag = "kinds", operation_id = "getKind",
    params(("kind" = String, Path, description = "The kind's name")),
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses((status = 200, description = "The kind.", body = KindInfo)),
)]
async fn get_kind(
    State(state): State<ApiState>,
    PathParam(KindName(name)): PathParam<KindName>,
) -> Result<Json<KindInfo>, ApiError> {
    Ok(Json(find(&state, &name).await?.into()))
}

/// Make a kind, or change its policy
///
/// What the body leaves out stays as it is, or has its default in a new kind.
#[utoipa::path(
    put, path = "/v1/kinds/{kind}", tag = "kinds", operation_id = "putKind",
    params(("kind" = String, Path, description = "The kind's name")),
    request_body = Option<KindChange>,
    responses(
        (status = 201, description = "The kind was made.", body = KindInfo),
        (status = 200, description = "The kind was there and is so now.", body = KindInfo),
    ),
)]
async fn put_kind(
    State(state): State<ApiState>,
    PathParam(KindName(name)): PathParam<KindName>,
    OptionalJsonBody(change): OptionalJsonBody<KindChange>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<KindInfo>), ApiError> {
    let stored = state.database.kind(&name).await?.map(|kind| kind.policy);
    let policy = changed(stored.unwrap_or_default(), change)?;
    let (kind, new) = state.database.put_kind(&name, &policy).await?;
    let status = if new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, [(header::LOCATION, format!("/v1/kinds/{name}"))], Json(kind.into())))
}

fn changed(mut policy: KindPolicy, change: KindChange) -> Result<KindPolicy, ApiError> {
    if let Some(queue) = change.queue {
        check_name("queue", &queue)
            .map_err(|error| ApiError::field("/queue", error.to_string()))?;
        policy.queue = queue;
    }
    let most = i64::from(MOST_PRIORITY);
    if let Some(priority) = within("priority", change.priority, -most, most)? {
        policy.priority = priority;
    }
    let most = i64::from(RetryPolicy::MAX_ATTEMPTS);
    if let Some(tries) = within("max_attempts", change.max_attempts, 1, most)? {
        policy.retry.max_attempts = tries;
    }
    // A delay of any length would be cut to this one.
    let most = retry::MAX_DELAY.as_millis() as i64;
    if let Some(base_ms) = within("backoff_base_ms", change.backoff_base_ms, 0, most)? {
        policy.retry.backoff.base_ms = base_ms;
    }
    if let Some(cap_ms) = within("backoff_cap_ms", change.backoff_cap_ms, 0, most)? {
        policy.retry.backoff.cap_ms = cap_ms;
    }
    if let Some(jitter) = within("backoff_jitter_percent", change.backoff_jitter_percent, 0, 100)? {
        policy.retry.backoff.jitter_percent = jitter;
    }
    if let Some(form) = change.backoff_form {
        policy.retry.backoff.form = form;
        if form != BackoffForm::List {
            policy.retry.backoff.delays_ms.clear();
        }
    }
    if let Some(delays_ms) = change.backoff_delays_ms {
        policy.retry.backoff.delays_ms = delays_ms;
    }
    policy
        .retry
        .backoff
        .check()
        .map_err(|error| ApiError::field("/backoff_delays_ms", error.to_string()))?;
    let limits = &mut policy.limits;
    limits.max_running = change.max_running.unwrap_or(limits.max_running);
    limits.max_running_per_key = change.max_running_per_key.unwrap_or(limits.max_running_per_key);
    limits.keeps_order = change.keeps_order.unwrap_or(limits.keeps_order);
    limits.rate = change.rate.map_or(limits.rate, |rate| rate.map(Into::into));
    limits.key_rate = change.key_rate.map_or(limits.key_rate, |rate| rate.map(Into::into));
    limits.check().map_err(|error| {
        ApiError::field(&format!("/{}", error.field().replace('.', "/")), error.to_string())
    })?;
    Ok(policy)
}

/// The number, if it lies within the range; a number too big for an i64 certainly does not.
fn within<T: TryInto<i64> + ToString + Copy, U: TryFrom<i64>>(
    field: &str,
    number: Option<T>,
    least: i64,
    most: i64,
) -> Result<Option<U>, ApiError> {
    let Some(given) = number else { return Ok(None) };
    let number = given.try_into().ok().filter(|number| (least..=most).contains(number));
    match number.and_then(|number| U::try_from(number).ok()) {
        Some(number) => Ok(Some(number)),
        None => {
            let given = given.to_string();
            let detail = format!("`{field}` is {given}: {least} to {most} is allowed");
            Err(ApiError::field(&format!("/{field}"), detail))
        }
    }
}

/// List the releases of a kind
///
/// Newest first, at most 1,000.
#[utoipa::path(
    get, path = "/v1/kinds/{kind}/releases", tag = "kinds", operation_id = "listReleases",
    params(("kind" = String, Path, description = "The kind's name")),
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses((status = 200, description = "The releases.", body = List<ReleaseInfo>)),
)]
async fn list_releases(
    State(state): State<ApiState>,
    PathParam(KindName(name)): PathParam<KindName>,
) -> Result<Json<List<ReleaseInfo>>, ApiError> {
    let active = find(&state, &name).await?.active_release;
    let releases = state.database.releases(&name).await?;
    let info = |release| release_info(&name, release, active);
    Ok(Json(releases.into_iter().map(info).collect()))
}

/// Make a release
///
/// A numbered, immutable version of the kind: a module and what an attempt of it may use. Unless
/// the body says otherwise, new attempts run it from now on.
#[utoipa::path(
    post, path = "/v1/kinds/{kind}/releases", tag = "kinds", operation_id = "createRelease",
    params(("kind" = String, Path, description = "The kind's name")),
    request_body = NewRelease,
    extensions(("x-problem-codes" = json!([Code::KindUnknown, Code::ModuleUnknown]))),
    responses((status = 201, description = "The release was made.", body = ReleaseInfo)),
)]
async fn create_release(
    State(state): State<ApiState>,
    PathParam(KindName(name)): PathParam<KindName>,
    JsonBody(new): JsonBody<NewRelease>,
) -> Result<(StatusCode, Json<ReleaseInfo>), ApiError> {
    let limits = new.limits.apply(Limits::DEFAULT);
    limits.check().map_err(|error| {
        ApiError::field(&format!("/limits/{}", error.name()), error.to_string())
    })?;
    let made = state.database.create_release(&name, new.digest, &limits, new.activate).await;
    let release = made.map_err(|error| not_found(error, Code::ModuleUnknown))?;
    let active = new.activate.then_some(release.number);
    Ok((StatusCode::CREATED, Json(release_info(&name, release, active))))
}

/// Choose the release that new attempts run
///
/// An older one to roll back, a newer one to roll forward. Running attempts go on with theirs.
#[utoipa::path(
    post, path = "/v1/kinds/{kind}/activate", tag = "kinds", operation_id = "activateRelease",
    params(("kind" = String, Path, description = "The kind's name")),
    request_body = Activation,
    extensions(("x-problem-codes" = json!([Code::KindUnknown, Code::ReleaseUnknown]))),
    responses((status = 200, description = "The kind as it is now.", body = KindInfo)),
)]
async fn activate_release(
    State(state): State<ApiState>,
    PathParam(KindName(name)): PathParam<KindName>,
    JsonBody(wanted): JsonBody<Activation>,
) -> Result<Json<KindInfo>, ApiError> {
    let done = state.database.activate_release(&name, wanted.release).await;
    done.map_err(|error| not_found(error, Code::ReleaseUnknown))?;
    Ok(Json(find(&state, &name).await?.into()))
}

/// The kind of this name.
pub(super) async fn find(state: &ApiState, name: &str) -> Result<Kind, ApiError> {
    state.database.kind(name).await?.ok_or_else(|| {
        ApiError::new(Code::KindUnknown, format!("There is no kind '{name}'."))
            .hint("Create it first, or push a handler for it.")
    })
}

/// What the queue did not find, called by the name it has here.
fn not_found(error: QueueError, code: Code) -> ApiError {
    match error {
        QueueError::Refused { code: RefusalCode::NotFound, message, hint } => {
            ApiError::new(code, message).hint(hint.unwrap_or_default())
        }
        other => other.into(),
    }
}

fn release_info(kind: &str, release: Release, active: Option<i32>) -> ReleaseInfo {
    ReleaseInfo {
        kind: kind.to_owned(),
        number: release.number,
        digest: release.digest,
        limits: release.limits.into(),
        active: active == Some(release.number),
        created_at: release.created_at,
    }
}

impl From<Kind> for KindInfo {
    fn from(kind: Kind) -> Self {
        KindInfo {
            name: kind.name,
            queue: kind.policy.queue,
            priority: kind.policy.priority,
            max_attempts: kind.policy.retry.max_attempts,
            backoff_base_ms: kind.policy.retry.backoff.base_ms,
            backoff_cap_ms: kind.policy.retry.backoff.cap_ms,
            backoff_form: kind.policy.retry.backoff.form,
            backoff_delays_ms: kind.policy.retry.backoff.delays_ms,
            backoff_jitter_percent: kind.policy.retry.backoff.jitter_percent,
            max_running: kind.policy.limits.max_running,
            max_running_per_key: kind.policy.limits.max_running_per_key,
            keeps_order: kind.policy.limits.keeps_order,
            rate: kind.policy.limits.rate.map(Into::into),
            key_rate: kind.policy.limits.key_rate.map(Into::into),
            active_release: kind.active_release,
            paused: kind.paused,
            created_at: kind.created_at,
        }
    }
}

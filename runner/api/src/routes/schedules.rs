//! Schedules.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use serde_json::Value;
use stokehold_domain::{Timing, check_name};
use stokehold_queue::{
    FireRecord, Misfire, NewSchedule, Overlap, QueueError, RefusalCode, Schedule,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::codes::Code;
use crate::extract::{JsonBody, PathParam, ScheduleName};
use crate::new_job::{check_metadata, check_numbers, payload};
use crate::problem::ApiError;
use crate::server::ApiState;
use crate::wire::{
    BackfillRequest, Content, FireInfo, List, MisfirePolicy, OverlapPolicy, ScheduleInfo,
    ScheduleRequest,
};

/// The largest payload of a schedule, in bytes. The table repeats it.
const PAYLOAD_BYTES: usize = 64 << 10;
/// The longest misfire window: a week. The table repeats it.
const MOST_WINDOW_S: i32 = 604_800;
/// Fires shown ahead, and back.
const AHEAD: usize = 5;
const BACK: i64 = 20;

pub(super) fn routes() -> OpenApiRouter<ApiState> {
    OpenApiRouter::new()
        .routes(routes!(list_schedules))
        .routes(routes!(get_schedule, put_schedule, delete_schedule))
        .routes(routes!(pause_schedule))
        .routes(routes!(resume_schedule))
        .routes(routes!(run_schedule))
        .routes(routes!(backfill_schedule))
}

/// List schedules
///
/// By name, at most 10,000.
#[utoipa::path(
    get, path = "/v1/schedules", tag = "schedules", operation_id = "listSchedules",
    responses((status = 200, description = "The schedules.", body = List<ScheduleInfo>)),
)]
async fn list_schedules(
    State(state): State<ApiState>,
) -> Result<Json<List<ScheduleInfo>>, ApiError> {
    let schedules = state.database.schedules().await?;
    Ok(Json(schedules.into_iter().map(|schedule| info(schedule, Vec::new())).collect()))
}

/// Look at a schedule
///
/// With its next five fires and its last twenty.
#[utoipa::path(
    get, path = "/v1/schedules/{schedule}", tag = "schedules", operation_id = "getSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    extensions(("x-problem-codes" = json!([Code::ScheduleUnknown]))),
    responses((status = 200, description = "The schedule.", body = ScheduleInfo)),
)]
async fn get_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
) -> Result<Json<ScheduleInfo>, ApiError> {
    find(&state, &name).await.map(Json)
}

/// Make a schedule, or change it
///
/// It is as the body says from then on. If neither `cron` nor `timezone` changes, no fire is lost or made twice; else
/// it goes on from the next time.
#[utoipa::path(
    put, path = "/v1/schedules/{schedule}", tag = "schedules", operation_id = "putSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    request_body = ScheduleRequest,
    extensions(("x-problem-codes" = json!([Code::KindUnknown]))),
    responses(
        (status = 201, description = "The schedule was made.", body = ScheduleInfo),
        (status = 200, description = "The schedule was there and is so now.", body = ScheduleInfo),
    ),
)]
async fn put_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
    JsonBody(wanted): JsonBody<ScheduleRequest>,
) -> Result<(StatusCode, Json<ScheduleInfo>), ApiError> {
    let (_, is_new) = state.database.put_schedule(&name, &read(wanted)?).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(find(&state, &name).await?)))
}

/// Delete a schedule
///
/// And what is known of its fires. Jobs that it made stay.
#[utoipa::path(
    delete, path = "/v1/schedules/{schedule}", tag = "schedules", operation_id = "deleteSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    extensions(("x-problem-codes" = json!([Code::ScheduleUnknown]))),
    responses((status = 200, description = "The schedule as it was.", body = ScheduleInfo)),
)]
async fn delete_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
) -> Result<Json<ScheduleInfo>, ApiError> {
    let schedule = find(&state, &name).await?;
    match state.database.delete_schedule(&name).await? {
        true => Ok(Json(schedule)),
        false => Err(unknown(&name)),
    }
}

/// Pause a schedule
///
/// It fires no more until it is resumed; jobs that it made are not touched.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/pause", tag = "schedules", operation_id = "pauseSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    extensions(("x-problem-codes" = json!([Code::ScheduleUnknown]))),
    responses((status = 200, description = "The schedule as it is now.", body = ScheduleInfo)),
)]
async fn pause_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
) -> Result<Json<ScheduleInfo>, ApiError> {
    state.database.pause_schedule(&name).await.map_err(not_found)?;
    find(&state, &name).await.map(Json)
}

/// Resume a schedule
///
/// It fires from the next time on; a backfill makes up for what came while it was paused.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/resume", tag = "schedules", operation_id = "resumeSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    extensions(("x-problem-codes" = json!([Code::ScheduleUnknown]))),
    responses((status = 200, description = "The schedule as it is now.", body = ScheduleInfo)),
)]
async fn resume_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
) -> Result<Json<ScheduleInfo>, ApiError> {
    state.database.resume_schedule(&name).await.map_err(not_found)?;
    find(&state, &name).await.map(Json)
}

/// Run a schedule now
///
/// Makes one job, whether it is paused and whatever runs. Its times stay as they are.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/run", tag = "schedules", operation_id = "runSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    extensions(("x-problem-codes" = json!([Code::ScheduleUnknown]))),
    responses((status = 201, description = "The fire, with its job.", body = FireInfo)),
)]
async fn run_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
) -> Result<(StatusCode, Json<FireInfo>), ApiError> {
    let fire = state.database.run_schedule(&name).await.map_err(not_found)?;
    Ok((StatusCode::CREATED, Json(fire.into())))
}

/// Fire times that are past
///
/// Those in the range that have no job, at most 1,000, whatever misfire and overlap say. Asked again, it makes
/// nothing twice.
#[utoipa::path(
    post, path = "/v1/schedules/{schedule}/backfill", tag = "schedules", operation_id = "backfillSchedule",
    params(("schedule" = String, Path, description = "The schedule's name")),
    request_body = BackfillRequest,
    extensions(("x-problem-codes" = json!([Code::ScheduleUnknown]))),
    responses((status = 200, description = "The fires that were made, or would be.", body = List<FireInfo>)),
)]
async fn backfill_schedule(
    State(state): State<ApiState>,
    PathParam(ScheduleName(name)): PathParam<ScheduleName>,
    JsonBody(BackfillRequest { from, to, dry_run }): JsonBody<BackfillRequest>,
) -> Result<Json<List<FireInfo>>, ApiError> {
    let fires = state.database.backfill(&name, from, to, dry_run).await.map_err(not_found)?;
    Ok(Json(fires.into_iter().map(FireInfo::from).collect()))
}

fn read(wanted: ScheduleRequest) -> Result<NewSchedule, ApiError> {
    let at = |field: &str, why: String| ApiError::field(&format!("/{field}"), why);
    check_name("kind", &wanted.kind).map_err(|error| at("kind", error.to_string()))?;
    let timezone = wanted.timezone.unwrap_or_else(|| "UTC".to_owned());
    Timing::read(&wanted.cron, &timezone).map_err(|error| at(error.field(), error.to_string()))?;
    check_numbers(wanted.priority, wanted.max_attempts).map_err(|(field, why)| at(field, why))?;
    if let Some(metadata) = &wanted.metadata {
        check_metadata(metadata, "")?;
    }
    let window_s = wanted.misfire_window_s.unwrap_or(3600);
    if !(0..=MOST_WINDOW_S).contains(&window_s) {
        let why = format!("`misfire_window_s` is {window_s}: 0 to {MOST_WINDOW_S} is allowed");
        return Err(at("misfire_window_s", why));
    }
    let payload = payload(wanted.payload, wanted.payload_base64, wanted.media_type, "")?;
    if payload.bytes.len() > PAYLOAD_BYTES {
        let bytes = payload.bytes.len();
        let why =
            format!("the payload has {bytes} bytes; a schedule's has {PAYLOAD_BYTES} at most");
        return Err(at("payload", why).hint("Store the data elsewhere and give a reference to it."));
    }
    // Both have been found to fit.
    let small = |number: Option<i32>| number.and_then(|number| i16::try_from(number).ok());
    Ok(NewSchedule {
        kind: wanted.kind,
        cron: wanted.cron,
        timezone,
        payload,
        priority: small(wanted.priority),
        max_attempts: small(wanted.max_attempts),
        metadata: wanted.metadata.map(Value::Object),
        misfire: match wanted.misfire {
            MisfirePolicy::Skip => Misfire::Skip,
            MisfirePolicy::Once => Misfire::Once,
            MisfirePolicy::All => Misfire::All,
        },
        misfire_window_s: window_s,
        overlap: match wanted.overlap {
            OverlapPolicy::Allow => Overlap::Allow,
            OverlapPolicy::Skip => Overlap::Skip,
        },
    })
}

async fn find(state: &ApiState, name: &str) -> Result<ScheduleInfo, ApiError> {
    let schedule = state.database.schedule(name).await?.ok_or_else(|| unknown(name))?;
    let fires = state.database.fires(name, BACK).await?;
    Ok(info(schedule, fires))
}

fn info(schedule: Schedule, fires: Vec<FireRecord>) -> ScheduleInfo {
    let Schedule { name, said, paused_at, next_fire_at, problem, created_at } = schedule;
    let timing = Timing::read(&said.cron, &said.timezone).ok();
    let from = next_fire_at.filter(|_| paused_at.is_none());
    let next_fires: Vec<DateTime<Utc>> = match (&timing, from) {
        (Some(timing), Some(from)) => timing.fires_from(from).take(AHEAD).collect(),
        _ => Vec::new(),
    };
    let local = |fire: &DateTime<Utc>| timing.as_ref().map(|timing| timing.shown(*fire));
    ScheduleInfo {
        next_local: next_fires.iter().filter_map(local).collect(),
        next_fires,
        name,
        kind: said.kind,
        cron: said.cron,
        timezone: said.timezone,
        payload: Content::of(&said.payload, PAYLOAD_BYTES),
        priority: said.priority.map(i32::from),
        max_attempts: said.max_attempts.map(i32::from),
        metadata: said.metadata,
        misfire: match said.misfire {
            Misfire::Skip => MisfirePolicy::Skip,
            Misfire::Once => MisfirePolicy::Once,
            Misfire::All => MisfirePolicy::All,
        },
        misfire_window_s: said.misfire_window_s,
        overlap: match said.overlap {
            Overlap::Allow => OverlapPolicy::Allow,
            Overlap::Skip => OverlapPolicy::Skip,
        },
        paused_at,
        problem,
        created_at,
        last_fires: fires.into_iter().map(FireInfo::from).collect(),
    }
}

impl From<FireRecord> for FireInfo {
    fn from(fire: FireRecord) -> Self {
        let FireRecord { fire_at, cause, job, skipped } = fire;
        FireInfo { fire_at, cause, job_id: job.map(|job| job.to_string()), skipped }
    }
}

fn unknown(name: &str) -> ApiError {
    ApiError::new(Code::ScheduleUnknown, format!("there is no schedule '{name}'"))
        .hint("List the schedules to see which there are.")
}

fn not_found(error: QueueError) -> ApiError {
    match error {
        QueueError::Refused { code: RefusalCode::NotFound, message, hint } => {
            ApiError::new(Code::ScheduleUnknown, message).hint(hint.unwrap_or_default())
        }
        error => error.into(),
    }
}

//! Every public problem code, in one list: its text, its HTTP status, its title. Each has a page of
//! the same name in `docs/errors`; a test compares the two.

use axum::http::StatusCode;
use serde::{Serialize, Serializer};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:ident, $title:literal;)+) => {
        /// What went wrong, for programs.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name),+ }

        impl Code {
            /// Every code.
            pub const ALL: &[Code] = &[$(Code::$name),+];

            /// The stable text.
            pub const fn as_str(self) -> &'static str {
                match self { $(Code::$name => $text),+ }
            }

            /// The status of every answer with this code.
            pub const fn status(self) -> StatusCode {
                match self { $(Code::$name => StatusCode::$status),+ }
            }

            /// What the problem is, the same each time.
            pub const fn title(self) -> &'static str {
                match self { $(Code::$name => $title),+ }
            }
        }
    };
}

codes! {
    /// No key, or none that is known.
    AuthKey = "auth.key", UNAUTHORIZED, "A valid API key is required";

    /// The body is not JSON.
    RequestJson = "request.json", BAD_REQUEST, "The body is not valid JSON";
    /// The body broke off.
    RequestBody = "request.body", BAD_REQUEST, "The body could not be read";
    /// A part of the path, or a parameter of the query, is not what is wanted.
    RequestParameter = "request.parameter", BAD_REQUEST, "A parameter is not valid";
    /// The cursor was not made here.
    RequestCursor = "request.cursor", BAD_REQUEST, "The cursor is not valid";
    /// The request is well-formed and asks for what is not allowed.
    RequestInvalid = "request.invalid", UNPROCESSABLE_ENTITY, "The request is not valid";
    /// The body has another media type than the operation takes.
    RequestMediaType = "request.media-type", UNSUPPORTED_MEDIA_TYPE,
        "The media type is not taken here";
    /// The body, or a part of it, is over its limit.
    RequestTooLarge = "request.too-large", PAYLOAD_TOO_LARGE, "The request is too large";
    /// The idempotency key stands for another request.
    RequestRepeated = "request.repeated", CONFLICT,
        "The idempotency key was used for another request";
    /// The request was not finished in time.
    RequestTimeout = "request.timeout", REQUEST_TIMEOUT, "The request took too long";

    /// No such path.
    RouteUnknown = "route.unknown", NOT_FOUND, "There is no such path";
    /// The path is there, the method is not.
    RouteMethod = "route.method", METHOD_NOT_ALLOWED, "The path does not take this method";

    /// No such kind.
    KindUnknown = "kind.unknown", NOT_FOUND, "There is no such kind";
    /// No such release.
    ReleaseUnknown = "release.unknown", NOT_FOUND, "There is no such release";

    /// No such job.
    JobUnknown = "job.unknown", NOT_FOUND, "There is no such job";
    /// The job has ended.
    JobEnded = "job.ended", CONFLICT, "The job has ended";
    /// The job runs, and only what waits can be changed.
    JobRuns = "job.runs", CONFLICT, "The job runs";
    /// Another job has the same unique key.
    JobDuplicate = "job.duplicate", CONFLICT, "Another job has the same unique key";
    /// The job has ended, and was run again.
    JobRetried = "job.retried", CONFLICT, "The job was retried before";
    /// The job completed, and nobody said to run even such again.
    JobCompleted = "job.completed", CONFLICT, "The job is completed";
    /// The job has not ended, so there is no result yet.
    JobNotFinished = "job.not-finished", CONFLICT, "The job has not ended";
    /// The job ended without a result.
    JobNoResult = "job.no-result", NOT_FOUND, "The job has no result";

    /// No such live runner.
    RunnerUnknown = "runner.unknown", NOT_FOUND, "There is no such runner";

    /// No such schedule.
    ScheduleUnknown = "schedule.unknown", NOT_FOUND, "There is no such schedule";

    /// No such module.
    ModuleUnknown = "module.unknown", NOT_FOUND, "There is no such module";
    /// The upload is over the limit.
    ModuleTooLarge = "module.too-large", PAYLOAD_TOO_LARGE, "The module is too large";
    /// Not WebAssembly.
    ModuleNotWasm = "module.not-wasm", UNPROCESSABLE_ENTITY,
        "The upload is not a WebAssembly binary";
    /// Machine code.
    ModulePrecompiled = "module.precompiled", UNPROCESSABLE_ENTITY,
        "Precompiled modules are not taken";
    /// It does not validate.
    ModuleInvalid = "module.invalid", UNPROCESSABLE_ENTITY, "The module is invalid";
    /// It uses a WebAssembly feature that is not offered.
    ModuleProposal = "module.unsupported-proposal", UNPROCESSABLE_ENTITY,
        "The module uses a feature that is not offered";
    /// It has too much of something.
    ModuleStructure = "module.structure", UNPROCESSABLE_ENTITY,
        "The module is over a structural limit";
    /// It could not be made into a component.
    ModuleComponentise = "module.componentise", UNPROCESSABLE_ENTITY,
        "The module could not be made into a component";
    /// It does not fit the instance pool.
    ModuleShape = "module.shape", UNPROCESSABLE_ENTITY, "The module does not fit the instance pool";
    /// The compiler gave up.
    ModuleCompile = "module.compile", UNPROCESSABLE_ENTITY, "The module could not be compiled";
    /// It exports nothing that can be run.
    ContractExport = "contract.export", UNPROCESSABLE_ENTITY, "The module exports no handler";
    /// It imports what is not offered.
    ContractImport = "contract.import", UNPROCESSABLE_ENTITY,
        "The module imports what is not offered";

    /// The database does not answer.
    DatabaseUnavailable = "database.unavailable", SERVICE_UNAVAILABLE,
        "The database does not answer";
    /// The schema is not the one that this binary needs.
    DatabaseSchema = "database.schema", SERVICE_UNAVAILABLE,
        "The database has another schema version";
    /// Too many requests at once.
    ServerBusy = "server.busy", SERVICE_UNAVAILABLE, "The server is busy";
    /// A fault of ours.
    ServerInternal = "server.internal", INTERNAL_SERVER_ERROR, "The server failed";
}

impl Code {
    /// The code with this text.
    pub fn find(text: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == text)
    }

    /// The `type` of its problems.
    pub fn type_uri(self) -> String {
        format!("urn:stokehold:error:{}", self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

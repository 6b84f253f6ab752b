//! The HTTP interface `/v1`: reads become a look at the job, writes become an operator's command.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use actix_web::dev::{Server, ServerHandle, ServiceRequest, ServiceResponse};
use actix_web::http::header::AUTHORIZATION;
use actix_web::middleware::{Next, from_fn};
use actix_web::web::{Data, Json, JsonConfig};
use actix_web::{App, HttpResponse, HttpServer, ResponseError, web};
use resilin_checkpoint::read_event;
use resilin_core::fact::Dated;
use resilin_core::handshake::Token;
use resilin_core::machine::job::{Command, MemberStatus, Status};
use resilin_core::{Incarnation, Step};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use super::announce::Location;
use super::common::Common;
use super::job::{Look, Operator, Seen};
use super::store::AreWishesKept;
use crate::exit::Exit;

/// Longest body of a request in bytes.
const BODY: usize = 4096;

/// Longest wait for the store; clients wait longer.
const PATIENCE: Duration = Duration::from_secs(5);

/// What `/v1/status` answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStatus {
    /// Name of the run.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Where the coordinator is.
    pub location: Location,
    /// The state directory.
    pub state: PathBuf,
    /// Names of the losses that scores have parts of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<String>,
    /// The job at this moment.
    #[serde(flatten)]
    pub job: Status,
    /// The newest facts, oldest first.
    #[serde(deserialize_with = "read_recent")]
    pub recent: Vec<Dated>,
}

impl RunStatus {
    /// Reads an answer of `/v1/status`. It is compiled here, once for every program that asks, and
    /// takes a detour for the sake of that.
    ///
    /// # Errors
    /// The text is no such answer.
    pub fn parse(answer: &[u8]) -> serde_json::Result<Self> {
        let value: serde_json::Value = serde_json::from_slice(answer)?;
        serde_json::from_value(value)
    }
}

fn read_recent<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Dated>, D::Error> {
    let recent = Vec::<serde_json::Value>::deserialize(deserializer)?;
    let read = recent.into_iter().map(read_event);
    read.collect::<Result<_, _>>().map_err(D::Error::custom)
}

/// A bound port, not served yet.
pub(super) struct Bound(TcpListener);

/// Opens the port.
pub(super) fn bind(address: &str) -> Result<Bound, Exit> {
    TcpListener::bind(address).map(Bound).map_err(|error| {
        let remedy = "stop what uses it or choose another --api address (port 0 takes a free one)";
        Exit::Fault(format!("cannot listen on {address}: {error}; {remedy}"))
    })
}

/// What the handlers know.
struct Desk {
    common: Arc<Common>,
    token: Option<Token>,
    location: Location,
    state: PathBuf,
}

/// A serving interface.
pub(super) struct Serving(ServerHandle);

impl Bound {
    /// Where it listens, with the real port.
    pub(super) fn address(&self) -> String {
        let address = self.0.local_addr();
        address.map_or_else(|_| String::new(), |address| address.to_string())
    }

    /// Begins to serve.
    pub(super) fn start(
        self,
        common: Arc<Common>,
        token: Option<Token>,
        location: Location,
        state: PathBuf,
    ) -> Result<Serving, Exit> {
        let desk = Data::new(Desk {
            common,
            token,
            location,
            state,
        });
        let app = move || {
            App::new()
                .app_data(desk.clone())
                .app_data(JsonConfig::default().limit(BODY).error_handler(unreadable))
                .wrap(from_fn(authorize))
                .route("/v1/status", web::get().to(status))
                .route("/v1/report", web::get().to(report))
                .route("/v1/scale", web::post().to(scale))
                .route("/v1/reshard", web::post().to(reshard))
                .route("/v1/drain", web::post().to(drain))
                .route("/v1/stop", web::post().to(stop))
                .default_service(web::to(|| async {
                    Err::<HttpResponse, _>(Refused::Unknown)
                }))
        };
        let server = HttpServer::new(app)
            .workers(1)
            .disable_signals()
            .shutdown_timeout(1)
            .listen(self.0);
        let server: Server = server
            .map_err(|error| Exit::Fault(format!("cannot serve HTTP: {error}")))?
            .run();
        let handle = server.handle();
        actix::spawn(server);
        Ok(Serving(handle))
    }
}

impl Serving {
    /// Ends it after the answers under way.
    pub(super) async fn stop(self) {
        self.0.stop(true).await;
    }
}

/// Why a request is not carried out.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("a token is needed: send it as `Authorization: Bearer TOKEN`")]
    Unauthorized,
    #[error("there is no such path; see /v1/status")]
    Unknown,
    #[error("no worker {asked} is here; {here}")]
    NoWorker { asked: String, here: String },
    #[error("{0} workers are more than [cluster] max_workers {1}; ask for at most {1}")]
    TooMany(u32, u32),
    #[error(
        "the run keeps its shards in the coordinator; only shards in processes of their own can \
         change ([cluster] shard_processes)"
    )]
    Inside,
    #[error("{0} shards cannot be; ask for 1 to 256")]
    Shards(u16),
    #[error("the body is not what is expected: {0}")]
    Unreadable(String),
    #[error("{0}")]
    Cannot(String),
    #[error(
        "it is being done, but is not written down ({0}); ask again if the coordinator is lost \
         before it is done"
    )]
    Unkept(String),
    #[error("the run has no report yet")]
    NoReport,
    #[error("the coordinator is ending")]
    Ending,
}

impl ResponseError for Refused {
    fn status_code(&self) -> actix_web::http::StatusCode {
        use actix_web::http::StatusCode;
        match self {
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Unknown | Self::NoWorker { .. } | Self::NoReport => StatusCode::NOT_FOUND,
            Self::Unreadable(_) | Self::TooMany(..) | Self::Inside | Self::Shards(_) => {
                StatusCode::BAD_REQUEST
            }
            Self::Cannot(_) => StatusCode::CONFLICT,
            Self::Unkept(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Ending => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn error_response(&self) -> HttpResponse {
        HttpResponse::build(self.status_code()).json(json!({ "error": self.to_string() }))
    }
}

fn unreadable(
    error: actix_web::error::JsonPayloadError,
    _: &actix_web::HttpRequest,
) -> actix_web::Error {
    Refused::Unreadable(error.to_string()).into()
}

async fn authorize(
    request: ServiceRequest,
    next: Next<impl actix_web::body::MessageBody>,
) -> Result<ServiceResponse<impl actix_web::body::MessageBody>, actix_web::Error> {
    let desk = request.app_data::<Data<Desk>>();
    let wanted = desk.and_then(|desk| desk.token.clone());
    let given = request.headers().get(AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    match (wanted, given) {
        (None, _) => {}
        (Some(wanted), Some(given)) if wanted == Token::new(given.into()) => {}
        (Some(_), _) => return Err(Refused::Unauthorized.into()),
    }
    next.call(request).await
}

async fn look(desk: &Desk) -> Result<Seen, Refused> {
    let status = desk.common.peers().job.send(Look).await;
    status.map_err(|_| Refused::Ending)
}

async fn command(desk: &Desk, command: Command) -> Result<HttpResponse, Refused> {
    let outlives = command.outlives();
    let sent = desk.common.peers().job.send(Operator(command)).await;
    let answer = sent.map_err(|_| Refused::Ending)?;
    answer.map_err(Refused::Cannot)?;
    if outlives {
        written(desk).await?;
    }
    Ok(HttpResponse::Accepted().json(json!({ "accepted": true })))
}

/// Waits until what was asked for outlives this coordinator.
async fn written(desk: &Desk) -> Result<(), Refused> {
    let asked = desk.common.peers().store.send(AreWishesKept);
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(kept)) => kept.map_err(Refused::Unkept),
        Ok(Err(_)) => Err(Refused::Ending),
        Err(_) => Err(Refused::Unkept("the store is busy".into())),
    }
}

async fn status(desk: Data<Desk>) -> Result<Json<RunStatus>, Refused> {
    let run = &desk.common.task.job.run;
    let Seen { status, recent } = look(&desk).await?;
    Ok(Json(RunStatus {
        name: run.name.clone(),
        seed: run.seed,
        location: desk.location.clone(),
        state: desk.state.clone(),
        losses: desk.common.task.model.losses(),
        job: status,
        recent,
    }))
}

async fn report(desk: Data<Desk>) -> Result<HttpResponse, Refused> {
    let path = desk.location.directory.join("report.json");
    let read = tokio::task::spawn_blocking(move || std::fs::read(path)).await;
    match read {
        Ok(Ok(bytes)) => Ok(HttpResponse::Ok()
            .content_type("application/json")
            .body(bytes)),
        Ok(Err(_)) | Err(_) => Err(Refused::NoReport),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scale {
    workers: u32,
}

async fn scale(desk: Data<Desk>, scale: Json<Scale>) -> Result<HttpResponse, Refused> {
    let most = desk.common.task.job.cluster.max_workers;
    if scale.workers > most {
        return Err(Refused::TooMany(scale.workers, most));
    }
    command(&desk, Command::Scale(scale.workers)).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reshard {
    shards: u16,
    at: Option<Step>,
}

async fn reshard(desk: Data<Desk>, reshard: Json<Reshard>) -> Result<HttpResponse, Refused> {
    let Reshard { shards, at } = reshard.into_inner();
    if desk.common.task.job.cluster.shard_processes == 0 {
        return Err(Refused::Inside);
    }
    if !(1..=256).contains(&shards) {
        return Err(Refused::Shards(shards));
    }
    command(&desk, Command::Reshard { shards, at }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Drain {
    worker: Named,
}

/// A worker's number: whole as `REIGN.NUMBER`, or the part after the point.
#[derive(Deserialize)]
#[serde(untagged)]
enum Named {
    Number(u32),
    Text(String),
}

impl Named {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    fn is(&self, incarnation: Incarnation) -> bool {
        let text = self.text();
        let text = text.trim_start_matches('#');
        text == incarnation.to_string() || text == incarnation.number.to_string()
    }
}

async fn drain(desk: Data<Desk>, drain: Json<Drain>) -> Result<HttpResponse, Refused> {
    let members = look(&desk).await?.status.workers;
    let mut named = members.iter().map(|member| member.incarnation);
    match named.find(|incarnation| drain.worker.is(*incarnation)) {
        Some(incarnation) => command(&desk, Command::Drain(incarnation)).await,
        None => Err(Refused::NoWorker {
            asked: drain.worker.text(),
            here: here(&members),
        }),
    }
}

/// Who could have been meant.
fn here(members: &[MemberStatus]) -> String {
    let numbers: Vec<String> = members
        .iter()
        .map(|member| member.incarnation.number.to_string())
        .collect();
    match numbers.is_empty() {
        true => "there is none at all".into(),
        false => format!("there are {}", numbers.join(", ")),
    }
}

async fn stop(desk: Data<Desk>) -> Result<HttpResponse, Refused> {
    command(&desk, Command::Stop).await
}

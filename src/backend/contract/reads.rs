//! Families that only read.

use async_trait::async_trait;

use futures::stream::BoxStream;

use super::cx::ReadCx;
use super::{Changes, EditRequest};
use crate::link::Duplex;
use crate::model::{
    Event, Host, Image, Instance, InstanceId, LogSource, NativeText, Network, Picture, Result,
    Sample, StoragePool, Volume,
};

/// Ways to a guest's port.
#[async_trait]
pub trait Routes: Send + Sync {
    /// All ways to `port`, best first; empty with a reason is an error.
    async fn routes(&self, cx: &ReadCx, on: &Instance, port: u16) -> Result<Vec<Route>>;
}

/// One way to a guest's port.
pub struct Route {
    /// How.
    pub way: Way,
    /// Why it is believed: `forwarded port`, `DHCP lease`.
    pub why: String,
    /// How old that knowledge is, seconds.
    pub age: Option<u64>,
}

/// How a route is taken.
pub enum Way {
    /// Plain TCP from here.
    Tcp(String, u16),
    /// TCP from a host that is logged in to by SSH.
    Jump {
        /// `[user@]host[:port]`.
        host: String,
        /// Address beyond it.
        address: String,
        /// Port beyond it.
        port: u16,
    },
    /// A stream that the backend opens.
    Stream(Box<dyn Opener>),
}

/// Opens a stream on demand.
#[async_trait]
pub trait Opener: Send + Sync {
    /// Opens it.
    async fn open(&self) -> Result<Duplex>;
}

/// Load.
#[async_trait]
pub trait Metrics: Send + Sync {
    /// One sample of each instance that can be read; rates are over the time since the last call.
    /// The number of calls behind it does not grow with the instances where the backend allows.
    async fn sample(&self, cx: &ReadCx, ids: &[InstanceId]) -> Result<Vec<(InstanceId, Sample)>>;
}

/// What the backend recorded.
#[async_trait]
pub trait Events: Send + Sync {
    /// Recorded events of one instance, or of the context; oldest first.
    async fn recorded(&self, cx: &ReadCx, id: Option<&InstanceId>) -> Result<Vec<Event>>;
}

/// What guest and launcher wrote.
#[async_trait]
pub trait Logs: Send + Sync {
    /// What there is to read.
    async fn sources(&self, cx: &ReadCx, on: &Instance) -> Result<Vec<LogSource>>;

    /// The last `tail` lines of one source, oldest first.
    async fn read(
        &self,
        cx: &ReadCx,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> Result<Vec<String>>;

    /// The last `tail` lines of one source, then lines as they come, without a gap between.
    fn follow(
        &self,
        on: &Instance,
        source: &str,
        tail: usize,
    ) -> BoxStream<'static, Result<String>>;
}

/// The screen.
#[async_trait]
pub trait Screenshots: Send + Sync {
    /// A picture of it now.
    async fn screenshot(&self, cx: &ReadCx, on: &Instance) -> Result<Picture>;
}

/// The definition as the backend has it, to be edited.
#[async_trait]
pub trait EditNative: Changes<EditRequest> {
    /// The text, and the token that says which text it is.
    async fn native(&self, cx: &ReadCx, on: &Instance) -> Result<NativeText>;
}

/// The machines that run instances.
#[async_trait]
pub trait Hosts: Send + Sync {
    /// All of them.
    async fn hosts(&self, cx: &ReadCx) -> Result<Vec<Host>>;
}

/// Where disks are kept.
#[async_trait]
pub trait Storage: Send + Sync {
    /// All pools.
    async fn pools(&self, cx: &ReadCx) -> Result<Vec<StoragePool>>;

    /// What is in one.
    async fn volumes(&self, cx: &ReadCx, pool: &str) -> Result<Vec<Volume>>;
}

/// What NICs connect to.
#[async_trait]
pub trait Networks: Send + Sync {
    /// All of them.
    async fn networks(&self, cx: &ReadCx) -> Result<Vec<Network>>;
}

/// What instances are made from.
#[async_trait]
pub trait Images: Send + Sync {
    /// Those that are here.
    async fn images(&self, cx: &ReadCx) -> Result<Vec<Image>>;

    /// Those that can be pulled and match every word of `query`.
    async fn search(&self, cx: &ReadCx, query: &[String]) -> Result<Vec<Image>>;
}

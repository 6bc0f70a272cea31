//! An object store that keeps its promises and little else.
//!
//! Requests take time and are answered with 503. Puts and deletes time out before they take effect,
//! after it, and before an effect that comes much later. A put-if-absent is answered with a conflict
//! although nothing is there. A listing is taken page by page while others put and delete. At times
//! nothing answers at all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult,
    Result,
};

use crate::objects::{ObjectBucket, Surroundings};

/// Names in a page of a listing.
const PAGE: usize = 3;
/// What a request takes.
const TYPICAL: Duration = Duration::from_millis(20);

/// What befalls requests; shares in a thousand.
#[derive(Clone, Copy, Debug)]
pub struct Moods {
    /// Refused without effect.
    pub refused: u64,
    /// No answer, and no effect.
    pub lost: u64,
    /// No answer, although it took effect.
    pub unanswered: u64,
    /// No answer, and an effect long after.
    pub late: u64,
    /// "Exists" of a name that is free.
    pub conflict: u64,
    /// Nothing answers for half a minute.
    pub away: u64,
}

impl Moods {
    /// Nothing goes wrong.
    pub const KIND: Self =
        Self { refused: 0, lost: 0, unanswered: 0, late: 0, conflict: 0, away: 0 };

    /// Some of each, mostly little.
    pub fn drawn(world: &dyn Surroundings) -> Self {
        let below = |bound: u64| below(world, bound);
        let share = || below([1, 20, 60, 150][below(4) as usize]);
        let (refused, lost, unanswered) = (share(), share(), share());
        let (late, conflict) = (share() / 2, share());
        Self { refused, lost, unanswered, late, conflict, away: below(3) }
    }
}

/// A number below a bound, by chance.
fn below(world: &dyn Surroundings, bound: u64) -> u64 {
    world.random() as u64 % bound
}

/// All handles share the objects.
#[derive(Clone)]
pub struct FickleStore {
    world: Arc<dyn Surroundings>,
    inside: Arc<Mutex<FickleObjects>>,
    /// How often a put or a delete is on its way for up to a minute, as from a server that stands
    /// still; a share in a thousand.
    slow: u64,
    /// Whoever has this handle was killed: nothing that it asks for gets here any more.
    gone: Arc<AtomicBool>,
}

struct FickleObjects {
    objects: BTreeMap<Path, (Bytes, Duration)>,
    /// Effects that are under way.
    late: Vec<(Duration, Effect)>,
    moods: Moods,
    away_until: Duration,
}

#[derive(Clone)]
enum Effect {
    Put { path: Path, bytes: Bytes, fresh: bool },
    Delete { path: Path },
}

impl FickleObjects {
    /// `false` where a put finds its name taken.
    fn take(&mut self, effect: Effect, now: Duration) -> bool {
        match effect {
            Effect::Put { path, fresh: true, .. } if self.objects.contains_key(&path) => false,
            Effect::Put { path, bytes, .. } => {
                self.objects.insert(path, (bytes, now));
                true
            }
            Effect::Delete { path } => {
                self.objects.remove(&path);
                true
            }
        }
    }
}

impl FickleStore {
    /// An empty one.
    pub fn new(world: Arc<dyn Surroundings>, moods: Moods) -> Self {
        let (objects, late) = (BTreeMap::new(), Vec::new());
        let inside = FickleObjects { objects, late, moods, away_until: Duration::ZERO };
        Self { world, inside: Arc::new(Mutex::new(inside)), slow: 0, gone: Arc::default() }
    }

    /// A server's own way to the objects; some servers stand still now and then.
    pub fn handle(&self) -> ObjectBucket {
        let slow = [2, 10, 300][self.below(3) as usize];
        ObjectBucket::new(Arc::new(Self { slow, ..self.clone() }), Path::default())
    }

    /// The way of a server whose time is its own, until it is killed.
    pub fn handle_of(&self, world: Arc<dyn Surroundings>, gone: Arc<AtomicBool>) -> ObjectBucket {
        let own = Self { world, gone, ..self.clone() };
        ObjectBucket::new(Arc::new(own), Path::default())
    }

    /// From now on so much goes wrong.
    pub fn change_moods(&self, moods: Moods) {
        self.inside().moods = moods;
    }

    /// From now on nothing goes wrong, and what is under way takes effect.
    pub fn heal(&self) {
        let mut inside = self.inside();
        inside.moods = Moods::KIND;
        inside.away_until = Duration::ZERO;
        let now = self.world.now();
        for (_, effect) in std::mem::take(&mut inside.late) {
            inside.take(effect, now);
        }
    }

    /// The objects as they are, after whatever late effects are due.
    fn inside(&self) -> MutexGuard<'_, FickleObjects> {
        let now = self.world.now();
        let mut inside = self.inside.lock().expect("nothing panics while it is held");
        let mut due: Vec<_> = inside.late.extract_if(.., |(at, _)| *at <= now).collect();
        due.sort_by_key(|(at, _)| *at);
        for (at, effect) in due {
            inside.take(effect, at);
        }
        inside
    }

    fn moods(&self) -> Moods {
        self.inside().moods
    }

    fn below(&self, bound: u64) -> u64 {
        below(&*self.world, bound)
    }

    /// Whether something happens that does so `share` times in a thousand.
    fn happens(&self, share: u64) -> bool {
        self.below(1000) < share
    }

    /// A time of mostly a few milliseconds, and rarely much longer.
    async fn pause(&self) {
        let times = [1, 1, 1, 2, 2, 4, 8, 30][self.below(8) as usize];
        self.wait(TYPICAL * times * (self.below(1000) as u32) / 1000).await;
    }

    async fn wait(&self, wait: Duration) {
        self.world.sleep(wait).await;
    }

    /// A request on its way, and perhaps no further.
    async fn request(&self) -> Result<()> {
        if self.gone.load(Ordering::SeqCst) {
            let path = "anything".to_owned();
            return Err(Error::PermissionDenied { path, source: "it was killed".into() });
        }
        let moods = self.moods();
        if self.happens(moods.away) {
            self.inside().away_until = self.world.now() + Duration::from_secs(30);
        }
        self.pause().await;
        if self.world.now() < self.inside().away_until {
            self.wait(Duration::from_secs(1)).await;
            return Err(failure("nothing answers"));
        }
        if self.happens(moods.refused) {
            return Err(failure("503"));
        }
        Ok(())
    }

    async fn timed_out<T>(&self) -> Result<T> {
        self.wait(Duration::from_secs(5)).await;
        Err(failure("time-out"))
    }

    async fn change(&self, effect: Effect) -> Result<bool> {
        if self.happens(self.slow) {
            self.wait(Duration::from_millis(self.below(60_000))).await;
        }
        self.request().await?;
        let moods = self.moods();
        if self.happens(moods.lost) {
            return self.timed_out().await;
        }
        if self.happens(moods.late) {
            let at = self.world.now() + Duration::from_millis(self.below(120_000));
            self.inside().late.push((at, effect));
            return self.timed_out().await;
        }
        let now = self.world.now();
        let done = self.inside().take(effect, now);
        if self.happens(moods.unanswered) {
            return self.timed_out().await;
        }
        self.pause().await;
        Ok(done)
    }

    fn meta(path: &Path, bytes: &Bytes, modified: Duration) -> ObjectMeta {
        ObjectMeta {
            location: path.clone(),
            last_modified: DateTime::<Utc>::UNIX_EPOCH + modified,
            size: bytes.len() as u64,
            e_tag: None,
            version: None,
        }
    }

    /// A listing, page by page.
    async fn listing(self, prefix: Option<Path>) -> Result<Vec<ObjectMeta>> {
        let mut found: Vec<ObjectMeta> = Vec::new();
        loop {
            self.request().await?;
            let last = found.last().map(|it| it.location.clone());
            let inside = self.inside();
            let is_within = |it: &Path| prefix.as_ref().is_none_or(|p| it.prefix_matches(p));
            let page: Vec<_> = inside
                .objects
                .iter()
                .filter(|(path, _)| is_within(path) && last.as_ref().is_none_or(|it| *path > it))
                .take(PAGE)
                .map(|(path, (bytes, modified))| Self::meta(path, bytes, *modified))
                .collect();
            drop(inside);
            let ends = page.len() < PAGE;
            found.extend(page);
            if ends {
                return Ok(found);
            }
        }
    }
}

fn failure(why: &'static str) -> Error {
    Error::Generic { store: "simulated", source: why.into() }
}

impl fmt::Debug for FickleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FickleStore")
    }
}

impl fmt::Display for FickleStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("simulated")
    }
}

#[async_trait]
impl ObjectStore for FickleStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        let fresh = matches!(options.mode, PutMode::Create);
        let exists =
            || Error::AlreadyExists { path: location.to_string(), source: "409 or 412".into() };
        if fresh && self.happens(self.moods().conflict) {
            self.request().await?;
            return Err(exists());
        }
        let (path, bytes) = (location.clone(), payload.into());
        if !self.change(Effect::Put { path, bytes, fresh }).await? {
            return Err(exists());
        }
        Ok(PutResult { e_tag: None, version: None, extensions: Default::default() })
    }

    async fn put_multipart_opts(
        &self,
        _: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        unreachable!("files of a simulation are short")
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.request().await?;
        let found = self.inside().objects.get(location).cloned();
        self.pause().await;
        let Some((bytes, modified)) = found else {
            return Err(Error::NotFound { path: location.to_string(), source: "404".into() });
        };
        let meta = Self::meta(location, &bytes, modified);
        let range = options.range.map_or(0..meta.size, |it| {
            it.as_range(meta.size).expect("ranges of a simulation are right")
        });
        let bytes = bytes.slice(range.start as usize..range.end as usize);
        let payload = GetResultPayload::Stream(stream::once(async { Ok(bytes) }).boxed());
        let (attributes, extensions) = Default::default();
        Ok(GetResult { payload, meta, range, attributes, extensions })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let own = self.clone();
        locations
            .and_then(move |path| {
                let own = own.clone();
                async move {
                    own.change(Effect::Delete { path: path.clone() }).await?;
                    Ok(path)
                }
            })
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let listing = self.clone().listing(prefix.cloned());
        stream::once(listing)
            .map_ok(|found| stream::iter(found.into_iter().map(Ok)))
            .try_flatten()
            .boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Path>) -> Result<ListResult> {
        unreachable!("nothing in a simulation asks for folders")
    }

    async fn copy_opts(&self, _: &Path, _: &Path, _: CopyOptions) -> Result<()> {
        unreachable!("nothing is copied")
    }
}

//! An object store that keeps its promises and little else.
//!
//! Requests take time and are answered with 503. Puts and deletes time out before they take effect,
//! after it, and before an effect that comes much later. A put-if-absent is answered with a conflict
//! although nothing is there. A listing is taken page by page while others put and delete. At times
//! nothing answers at all.

use std::collections::BTreeMap;
use std::fmt;
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

use super::world::SimulatedWorld;
use crate::objects::ObjectBucket;

/// Names in a page of a listing.
const PAGE: usize = 3;

/// What befalls requests; shares in a thousand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moods {
    /// Refused without effect.
    pub(super) refused: u64,
    /// No answer, and no effect.
    pub(super) lost: u64,
    /// No answer, although it took effect.
    pub(super) unanswered: u64,
    /// No answer, and an effect long after.
    pub(super) late: u64,
    /// "Exists" of a name that is free.
    pub(super) conflict: u64,
    /// Nothing answers for half a minute.
    pub(super) away: u64,
}

impl Moods {
    pub(super) const KIND: Self =
        Self { refused: 0, lost: 0, unanswered: 0, late: 0, conflict: 0, away: 0 };

    /// Some of each, mostly little.
    pub(super) fn drawn(world: &SimulatedWorld) -> Self {
        let share = || world.below([1, 20, 60, 150][world.below(4) as usize]);
        let (refused, lost, unanswered) = (share(), share(), share());
        let (late, conflict) = (share() / 2, share());
        Self { refused, lost, unanswered, late, conflict, away: world.below(3) }
    }
}

/// All handles share the objects.
#[derive(Clone)]
pub(super) struct FickleStore {
    world: Arc<SimulatedWorld>,
    inside: Arc<Mutex<FickleObjects>>,
    /// How often a put or a delete is on its way for up to a minute, as from a server that stands
    /// still; a share in a thousand.
    slow: u64,
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
    pub(super) fn new(world: &Arc<SimulatedWorld>, moods: Moods) -> Self {
        let (objects, late) = (BTreeMap::new(), Vec::new());
        let inside = FickleObjects { objects, late, moods, away_until: Duration::ZERO };
        Self { world: Arc::clone(world), inside: Arc::new(Mutex::new(inside)), slow: 0 }
    }

    /// A server's own way to the objects; some servers stand still now and then.
    pub(super) fn handle(&self) -> ObjectBucket {
        let slow = [2, 10, 300][self.world.below(3) as usize];
        ObjectBucket::new(Arc::new(Self { slow, ..self.clone() }), Path::default())
    }

    /// From now on nothing goes wrong, and what is under way takes effect.
    pub(super) fn heal(&self) {
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

    /// A request on its way, and perhaps no further.
    async fn request(&self) -> Result<()> {
        let moods = self.moods();
        if self.world.happens(moods.away) {
            self.inside().away_until = self.world.now() + Duration::from_secs(30);
        }
        self.world.pause(Duration::from_millis(20)).await;
        if self.world.now() < self.inside().away_until {
            self.world.wait(Duration::from_secs(1)).await;
            return Err(failure("nothing answers"));
        }
        if self.world.happens(moods.refused) {
            return Err(failure("503"));
        }
        Ok(())
    }

    async fn timed_out<T>(&self) -> Result<T> {
        self.world.wait(Duration::from_secs(5)).await;
        Err(failure("time-out"))
    }

    async fn change(&self, effect: Effect) -> Result<bool> {
        if self.world.happens(self.slow) {
            self.world.wait(Duration::from_millis(self.world.below(60_000))).await;
        }
        self.request().await?;
        let moods = self.moods();
        if self.world.happens(moods.lost) {
            return self.timed_out().await;
        }
        if self.world.happens(moods.late) {
            let at = self.world.now() + Duration::from_millis(self.world.below(120_000));
            self.inside().late.push((at, effect));
            return self.timed_out().await;
        }
        let now = self.world.now();
        let done = self.inside().take(effect, now);
        if self.world.happens(moods.unanswered) {
            return self.timed_out().await;
        }
        self.world.pause(Duration::from_millis(20)).await;
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
        if fresh && self.world.happens(self.moods().conflict) {
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
        self.world.pause(Duration::from_millis(20)).await;
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

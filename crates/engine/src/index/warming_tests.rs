//! Pages that are read ahead of searches, while others wait for searches to end.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::mpsc::channel;

use super::*;
use crate::format::{Identity, PageWriter, RecordLayout};
use crate::index::open_options::OpenOptions;
use crate::index::pages::Partition;
use crate::io::memory::Memory;
use crate::io::{Device, File};
use crate::memory::{Accountant, Pool};
use crate::types::{RowId, VectorType};

const PAGES: u32 = 2;
const IDENTITY: Identity = Identity { uuid: [3; 16] };

fn layout() -> RecordLayout {
    RecordLayout::choose(512, VectorType::F32, 8, PAGES.into(), 1.0).unwrap()
}

fn image(page: u32) -> Vec<u8> {
    let layout = layout();
    let mut bytes = vec![0; layout.page_bytes()];
    let mut writer = PageWriter::new(&layout, &mut bytes);
    writer.put(0, &vec![0; layout.vector_bytes()], RowId(page.into()), &[]);
    writer.seal(&IDENTITY, PageId(page), 1);
    bytes
}

/// Pages in memory as on a device, with a cache that has room for all of them.
fn warming(cache: PageCache, accountant: &Arc<Accountant>) -> Warming {
    let file = File::from_bytes(Path::new("pages"), (0..PAGES).flat_map(image).collect());
    let backend = Arc::new(Memory::new());
    let partition = Partition {
        first_page: 0,
        page_map: (0..PAGES).collect(),
        device: Device::whole(&file).unwrap(),
        row_map: None,
        segments: vec![(0, "pages".into())],
    };
    let pages = PageFiles {
        identity: IDENTITY,
        layout: layout(),
        count: PAGES,
        owned: None,
        home: None,
        partitions: vec![partition],
        cache: OnceLock::from(cache),
        backend: Arc::clone(&backend) as _,
    };
    let no_codes = accountant.reserve(Pool::Codes, 0).unwrap();
    Warming::new(Warmed {
        pages: Arc::new(pages),
        codes: Arc::new(StreamedCodes::new(backend, Vec::new(), 8, 0, no_codes)),
        head: None,
        load: ConcurrentLoad::default(),
        dial: MemoryDial::new(&OpenOptions::default()),
    })
}

fn cache(accountant: &Arc<Accountant>) -> PageCache {
    PageCache::new(accountant, layout().page_bytes(), PAGES, (PAGES, 0)).unwrap()
}

#[test]
fn a_search_that_ends_does_not_wait_for_who_ends_the_warming() {
    let accountant = Accountant::new(None);
    let warming = warming(cache(&accountant), &accountant);
    // As whoever ends it does while he waits for its thread.
    let ending = lock(&warming.thread);
    assert!(!warming.wake_at_once());
    drop(ending);
    assert!(warming.wake_at_once());
    assert!(warming.wait(Duration::from_secs(60)));
    let pages = warming.shared.of.pages.cache.get().unwrap();
    assert!(pages.is_whole(), "{} pages", pages.pages());
    assert!(warming.wake_at_once(), "there is nothing to do");
}

#[test]
fn a_page_that_waits_for_a_search_to_let_go_is_given_up_when_the_warming_ends() {
    let accountant = Accountant::new(None);
    let before = cache(&accountant);
    (0..PAGES).for_each(|page| before.admit(PageId(page), &image(page)));
    // The frame of the page that has changed comes free when nobody looks at it any more.
    let next = before.successor(PAGES, &|page| page == PageId(1), None);
    let warming = warming(next, &accountant);
    let (shared, (begun, has_begun), (end, ends)) = (&warming.shared, channel(), channel());
    let pages = &shared.of.pages;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _lease = pages.cache.get().unwrap().lease(0);
            begun.send(()).unwrap();
            ends.recv().unwrap();
        });
        has_begun.recv().unwrap();
        drop(before);
        lock(&shared.order).stop = true;
        let mut queue = pages.backend.queue(&pages.queue_options(DEPTH)).unwrap();
        let buffer = queue.take_buffer().unwrap();
        queue.buffer_mut(buffer).copy_from_slice(&image(1));
        let mut pass = WarmingPass {
            shared,
            cache: pages.cache.get().unwrap(),
            queue,
            completions: Vec::new(),
            used: 0,
            ticks: 0,
            unreadable: 0,
        };
        let read = Completion { tag: 1, buffer, result: Ok(layout().page_bytes()) };
        assert!(matches!(pass.keep(&read), Err(PassEnd::Stopped)));
        end.send(()).unwrap();
    });
}

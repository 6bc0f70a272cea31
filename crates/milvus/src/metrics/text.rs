//! The text that Prometheus reads, made anew each time.

use std::collections::BTreeMap;
use std::fmt::Error;
use std::sync::{Arc, PoisonError};

use pipeann_db::access::RefusedPasswords;
use pipeann_db::catalog::CollectionId;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::{EndCounts, MetricFamily, Metrics, OfCollection, STAGES, Searches, process};

/// What is not counted but there.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// Of each collection.
    pub(crate) collections: Vec<CollectionGauges>,
    /// Searches that wait.
    pub(crate) waiting: usize,
    /// Passwords that were not accepted.
    pub(crate) refused: RefusedPasswords,
    /// Passwords that were not looked at, since wrong ones came before.
    pub(crate) delayed: u64,
    /// Bytes of memory by pool.
    pub(crate) pools: Vec<(&'static str, u64)>,
    /// Bytes that all pools may hold together.
    pub(crate) limit: Option<u64>,
    /// Of each raw device what it was asked for.
    pub(crate) devices: Vec<DeviceGauges>,
    /// Figures of those who stand behind the door.
    pub(crate) families: Vec<MetricFamily>,
}

/// A collection that is there.
#[derive(Debug)]
pub(crate) struct CollectionGauges {
    /// Its id.
    pub(crate) id: CollectionId,
    /// The name of its database, and its own.
    pub(crate) names: [String; 2],
    /// Rows that live.
    pub(crate) rows: u64,
    /// Rows of them that wait to enter a graph.
    pub(crate) growing: u64,
    /// Rows of them that entered a graph by links of another server.
    pub(crate) adopted: u64,
}

/// What a raw device was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceGauges {
    /// Reads.
    pub(crate) reads: u64,
    /// Commands that failed.
    pub(crate) errors: u64,
    /// Reads that were done from files, since it is lost.
    pub(crate) from_files: u64,
}

impl Metrics {
    /// All series. What belongs to collections that are not there any more is forgotten.
    pub(crate) fn text(&self, state: Gauges) -> Result<String, Error> {
        let named = state.collections.iter().map(|of| self.of(of.id)).collect();
        let mut all = self.collections.write().unwrap_or_else(PoisonError::into_inner);
        all.retain(|id, _| state.collections.iter().any(|of| of.id == *id));
        drop(all);
        let elsewhere = self.elsewhere.all();
        let mut registry = Registry::default();
        let none = Searches::new();
        registry.register_collector(Box::new(Series { named, none, elsewhere, state }));
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry)?;
        Ok(text)
    }
}

/// What one text tells.
#[derive(Debug)]
struct Series {
    /// In the order of the collections of `state`.
    named: Vec<Arc<OfCollection>>,
    /// Of those that nobody has searched.
    none: Searches,
    elsewhere: EndCounts,
    state: Gauges,
}

/// A number that is counted of a collection.
type CountedValue = fn(&Searches) -> u64;

impl Collector for Series {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        self.gauges(&mut encoder)?;
        self.devices(&mut encoder)?;
        self.state.families.iter().try_for_each(|family| family.encode(&mut encoder))?;
        self.calls(&mut encoder)?;
        let counters: [(&str, &str, CountedValue); 3] = [
            ("pipeann_search_queries", "Query vectors of searches", |of| of.queries.get()),
            ("pipeann_search_hits", "Rows that searches found", |of| of.hits.get()),
            ("pipeann_filtered_searches", "Searches with a filter", |of| of.filtered.get()),
        ];
        for (name, help, counted) in counters {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (labels, of) in self.each() {
                ConstCounter::new(counted(of)).encode(family.encode_family(&labels)?)?;
            }
        }
        let (name, help) = ("pipeann_search_joined", "Searches that were done as one");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        for (labels, of) in self.each() {
            of.joined.encode(family.encode_family(&labels)?)?;
        }
        let (name, help) = ("pipeann_search_stage", "Time of searches by stage");
        let unit = Some(&Unit::Seconds);
        let mut family = encoder.encode_descriptor(name, help, unit, MetricType::Histogram)?;
        for (labels, of) in self.each() {
            for (stage, times) in STAGES.iter().zip(&of.stages) {
                let labels = (labels, [("stage", *stage)]);
                times.encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

type Labels<'s> = [(&'static str, &'s str); 2];

impl Series {
    fn each(&self) -> impl Iterator<Item = (Labels<'_>, &Searches)> {
        let named =
            self.named.iter().map(|of| of.searches.get().map_or(&self.none, |found| &**found));
        self.state.collections.iter().map(|of| labels(&of.names)).zip(named)
    }

    fn gauges(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let (waiting, bytes) = (self.state.waiting as u64, Some(&Unit::Bytes));
        gauge(encoder, ("pipeann_searches_waiting", "Searches that wait for a thread"), waiting)?;
        if let Some(resident) = process::resident_bytes() {
            let (name, help) = ("process_resident_memory", "Memory of this process");
            let encoded = encoder.encode_descriptor(name, help, bytes, MetricType::Gauge)?;
            ConstGauge::new(resident).encode(encoded)?;
        }
        let (name, help) = ("pipeann_memory", "Memory that is accounted for, by what it is for");
        let mut family = encoder.encode_descriptor(name, help, bytes, MetricType::Gauge)?;
        for &(pool, held) in &self.state.pools {
            ConstGauge::new(held).encode(family.encode_family(&[("pool", pool)])?)?;
        }
        if let Some(limit) = self.state.limit {
            let (name, help) = ("pipeann_memory_limit", "Memory that may be accounted for");
            let encoded = encoder.encode_descriptor(name, help, bytes, MetricType::Gauge)?;
            ConstGauge::new(limit).encode(encoded)?;
        }
        let (name, help) =
            ("pipeann_passwords_refused", "Passwords that were not accepted, by why");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        let RefusedPasswords { wrong, busy } = self.state.refused;
        for (why, count) in [("wrong", wrong), ("delayed", self.state.delayed), ("busy", busy)] {
            ConstCounter::new(count).encode(family.encode_family(&[("why", why)])?)?;
        }
        let (name, help) = ("pipeann_rows", "Rows that live");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for CollectionGauges { names, rows, .. } in &self.state.collections {
            ConstGauge::new(*rows).encode(family.encode_family(&labels(names))?)?;
        }
        let (name, help) = ("pipeann_growing_rows", "Rows that wait to enter a graph here");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for CollectionGauges { names, growing, .. } in &self.state.collections {
            ConstGauge::new(*growing).encode(family.encode_family(&labels(names))?)?;
        }
        let (name, help) = ("pipeann_adopted_links", "Rows linked as the leader has");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for CollectionGauges { names, adopted, .. } in &self.state.collections {
            ConstCounter::new(*adopted).encode(family.encode_family(&labels(names))?)?;
        }
        Ok(())
    }

    /// Nothing where there are none.
    fn devices(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        type Counted = fn(&DeviceGauges) -> u64;
        let counters: [(&str, &str, Counted); 3] = [
            ("pipeann_device_reads", "Reads of a raw device", |of| of.reads),
            ("pipeann_device_errors", "Commands that a raw device failed", |of| of.errors),
            (
                "pipeann_device_reads_from_files",
                "Reads that were done from files, since a raw device is lost",
                |of| of.from_files,
            ),
        ];
        for (name, help, counted) in counters {
            if self.state.devices.is_empty() {
                break;
            }
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (number, device) in self.state.devices.iter().enumerate() {
                let labels = [("device", number.to_string())];
                ConstCounter::new(counted(device)).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }

    fn calls(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let named = self.state.collections.iter().zip(&self.named);
        let named = named.map(|(gauges, of)| {
            let [database, name] = &gauges.names;
            ([&**database, &**name], of.calls.all())
        });
        let of_none = std::iter::once((["", ""], self.elsewhere.clone()));
        let all: Vec<([&str; 2], EndCounts)> = of_none.chain(named).collect();
        let (name, help) = ("pipeann_requests", "Calls that were answered");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (names, calls) in &all {
            let mut sums = BTreeMap::<&str, u64>::new();
            for ((call, _), count) in calls {
                *sums.entry(call).or_default() += count;
            }
            for (call, sum) in sums {
                let labels = [("database", names[0]), ("collection", names[1]), ("call", call)];
                ConstCounter::new(sum).encode(family.encode_family(&labels)?)?;
            }
        }
        let (name, help) = ("pipeann_failures", "Calls that were refused or failed, by code");
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (names, calls) in &all {
            for ((call, code), count) in calls.iter().filter(|((_, code), _)| *code != 0) {
                let code = code.to_string();
                let (database, collection) = (names[0], names[1]);
                let labels = [("database", database), ("collection", collection)];
                let labels = (labels, [("call", *call), ("code", &*code)]);
                ConstCounter::new(*count).encode(family.encode_family(&labels)?)?;
            }
        }
        Ok(())
    }
}

fn labels(names: &[String; 2]) -> Labels<'_> {
    [("database", &names[0]), ("collection", &names[1])]
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    (name, help): (&str, &str),
    value: u64,
) -> Result<(), Error> {
    let encoded = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(encoded)
}

//! Figures of whoever stands behind the door, told beside the door's own.

use std::fmt::Error;

use prometheus_client::encoding::{
    DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet,
};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Some series of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricFamily {
    /// Its name, without what its kind adds to it.
    pub name: &'static str,
    /// What it is, for people.
    pub help: &'static str,
    /// The series, each with its label, if it has one.
    pub values: Vec<(Option<(&'static str, String)>, MetricValue)>,
}

/// What a series tells.
#[derive(Clone, Debug, PartialEq)]
pub enum MetricValue {
    /// A number that only grows; `_total` is added to the name.
    Counter(u64),
    /// A number that may grow and shrink.
    Gauge(f64),
    /// How often values were at most a bound and above the one before it.
    Histogram {
        /// All values together.
        sum: f64,
        /// Bounds and counts, the last one with infinity for no bound.
        buckets: Vec<(f64, u64)>,
    },
}

impl MetricFamily {
    /// One series without a label.
    pub fn one(name: &'static str, help: &'static str, value: MetricValue) -> Self {
        Self { name, help, values: vec![(None, value)] }
    }

    /// Some series that differ by one label.
    pub fn by(
        name: &'static str,
        help: &'static str,
        label: &'static str,
        values: impl IntoIterator<Item = (String, MetricValue)>,
    ) -> Self {
        let labelled = |(of, value)| (Some((label, of)), value);
        Self { name, help, values: values.into_iter().map(labelled).collect() }
    }

    pub(super) fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), Error> {
        let Some((_, first)) = self.values.first() else { return Ok(()) };
        let kind = match first {
            MetricValue::Counter(_) => MetricType::Counter,
            MetricValue::Gauge(_) => MetricType::Gauge,
            MetricValue::Histogram { .. } => MetricType::Histogram,
        };
        let mut family = encoder.encode_descriptor(self.name, self.help, None, kind)?;
        if let [(None, value)] = &self.values[..] {
            return value.encode(family);
        }
        for (label, value) in &self.values {
            let (of, is) = label.as_ref().map_or(("", ""), |(of, is)| (*of, &**is));
            value.encode(family.encode_family(&[(of, is)])?)?;
        }
        Ok(())
    }
}

impl MetricValue {
    fn encode(&self, mut series: MetricEncoder<'_>) -> Result<(), Error> {
        match self {
            Self::Counter(value) => ConstCounter::new(*value).encode(series),
            Self::Gauge(value) => ConstGauge::new(*value).encode(series),
            Self::Histogram { sum, buckets } => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                series.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

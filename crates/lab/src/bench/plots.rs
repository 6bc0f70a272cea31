//! SVG plots of measured curves: something against recall, one line for each run.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::prelude::*;

/// One line: (recall, value) points in the order of growing lists.
pub(crate) struct Curve {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// What a plot shows.
#[derive(Clone, Copy)]
pub(crate) struct Axis<'a> {
    pub(crate) title: &'a str,
    /// Of the vertical axis, with unit.
    pub(crate) label: &'a str,
    /// Whether the curves fall towards high recall; decides where the names stand.
    pub(crate) falls: bool,
}

/// Draws `curves` over recall into an SVG file. Curves without points are left out.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn draw(path: &Path, axis: Axis<'_>, curves: &[Curve]) -> Result<()> {
    draw_svg(path, axis, curves).map_err(|e| anyhow!("{}: cannot be drawn: {e}", path.display()))
}

fn draw_svg(
    path: &Path,
    axis: Axis<'_>,
    curves: &[Curve],
) -> Result<(), Box<dyn std::error::Error>> {
    let points = || curves.iter().flat_map(|c| &c.points);
    let (recall, value) = (range(points().map(|p| p.0)), range(points().map(|p| p.1)));
    let area = SVGBackend::new(path, (860, 520)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(axis.title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(44)
        .y_label_area_size(72)
        .build_cartesian_2d(recall.0..recall.1.min(1.0), 0.0..value.1)?;
    chart
        .configure_mesh()
        .x_desc("recall")
        .y_desc(axis.label)
        .light_line_style(WHITE)
        .x_label_formatter(&|r| format!("{r:.3}"))
        .draw()?;
    for (i, curve) in curves.iter().enumerate().filter(|(_, c)| !c.points.is_empty()) {
        let colour = Palette99::pick(i).to_rgba();
        chart
            .draw_series(LineSeries::new(curve.points.iter().copied(), colour.stroke_width(2)))?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        let dots = curve.points.iter().map(|&p| Circle::new(p, 3, colour.filled()));
        chart.draw_series(dots)?;
    }
    let names = match axis.falls {
        true => SeriesLabelPosition::UpperRight,
        false => SeriesLabelPosition::UpperLeft,
    };
    chart
        .configure_series_labels()
        .position(names)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    area.present()?;
    Ok(())
}

/// Smallest and largest with a margin, and never empty.
fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    if low > high {
        return (0.0, 1.0);
    }
    let margin = ((high - low) * 0.05).max(1e-3);
    (low - margin, high + margin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(title: &str) -> Axis<'_> {
        Axis { title, label: "reads", falls: title == "qps" }
    }

    #[test]
    fn plots_are_svg_and_name_their_curves() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.svg");
        let curve = |name: &str, points: &[(f64, f64)]| Curve {
            name: name.into(),
            points: points.to_vec(),
        };
        let curves = [curve("pipe", &[(0.9, 20.0), (0.95, 30.0)]), curve("absent", &[])];
        draw(&path, axis("reads"), &curves).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("pipe") && !svg.contains("absent"));
        draw(&path, axis("reads"), &[]).unwrap();
        draw(&path, axis("one"), &[curve("x", &[(1.0, 5.0)])]).unwrap();
        assert!(draw(&dir.path().join("no/a.svg"), axis(""), &curves).is_err());
    }
}

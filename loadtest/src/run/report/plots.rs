//! Plots as SVG.

use anyhow::{Result, anyhow};
use plotters::prelude::*;

use super::series::{Bar, Series};

/// How far the vertical axis reaches.
#[derive(Clone, Copy)]
pub(super) enum Axis {
    Percent,
    /// From zero to a little above the highest value.
    FromZero,
}

const SIZE: (u32, u32) = (900, 300);
const FONT: (&str, i32) = ("sans-serif", 13);
const HEADROOM: f64 = 1.08;

pub(super) fn distribution(bars: &[Bar]) -> Result<String> {
    let from = bars.first().map_or(0.001, |bar| bar.from_ms);
    let to = bars.last().map_or(1.0, |bar| bar.to_ms);
    let all = bars.iter().map(|bar| bar.count).sum::<u64>().max(1) as f64;
    let share = |bar: &Bar| bar.count as f64 * 100.0 / all;
    let highest = bars.iter().map(share).fold(0.0, f64::max) * HEADROOM;
    drawn(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d((from..to).log_scale(), 0.0..highest)?;
        chart
            .configure_mesh()
            .disable_x_mesh()
            .light_line_style(WHITE)
            .x_desc("ms (logarithmic)")
            .y_desc("% of all")
            .label_style(FONT)
            .x_label_formatter(&|value| plain(*value))
            .draw()?;
        chart.draw_series(bars.iter().map(|bar| {
            let corners = [(bar.from_ms, 0.0), (bar.to_ms, share(bar))];
            Rectangle::new(corners, BLUE.mix(0.55).filled())
        }))?;
        Ok(())
    })
}

pub(super) fn lines(lines: &[(String, Series)], axis: Axis) -> Result<String> {
    let points = || lines.iter().flat_map(|(_, points)| points);
    let end = points().map(|point| point.0).fold(1.0, f64::max);
    let top = match axis {
        Axis::Percent => 100.0,
        Axis::FromZero => points().map(|point| point.1).fold(1.0, f64::max) * HEADROOM,
    };
    drawn(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(0.0..end, 0.0..top)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_desc("s")
            .label_style(FONT)
            .x_label_formatter(&|value| plain(*value))
            .y_label_formatter(&|value| plain(*value))
            .draw()?;
        for (number, (name, points)) in lines.iter().enumerate() {
            let color = Palette99::pick(number).to_rgba();
            chart
                .draw_series(LineSeries::new(
                    points.iter().copied(),
                    color.stroke_width(2),
                ))?
                .label(name)
                .legend(move |(x, y)| {
                    PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2))
                });
        }
        if lines.len() > 1 {
            chart
                .configure_series_labels()
                .label_font(FONT)
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.2))
                .draw()?;
        }
        Ok(())
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type Drawn = Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn drawn(draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let done = draw(&area).and_then(|()| Ok(area.present()?));
        done.map_err(|error| anyhow!("cannot draw a plot: {error}"))?;
    }
    Ok(svg)
}

/// Without digits that say nothing.
fn plain(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 10.0 || size == 0.0 => 0,
        size if size >= 1.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

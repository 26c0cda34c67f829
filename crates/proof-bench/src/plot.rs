//! Plots as SVG, for report.html. A plot that cannot be drawn is left out: the tables have the figures.

use crate::report::{Failover, Measurement};
use plotters::prelude::*;
use proof_check::availability::tally::Availability;

const SIZE: (u32, u32) = (1_000, 360);
const HIVE: RGBColor = RGBColor(0xd9, 0x8e, 0x04);
const PEER: RGBColor = RGBColor(0x4a, 0x6f, 0xa5);

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn svg(draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, plotters::coord::Shift>) -> Drawn) -> String {
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)
            .map_err(|error| error.to_string())
            .and_then(|()| draw(&area).map_err(|error| error.to_string()))
            .and_then(|()| area.present().map_err(|error| error.to_string()))
    };
    if drawn.is_ok() {
        text
    } else {
        String::new()
    }
}

fn label(measurement: &Measurement) -> String {
    format!("{} {} {}", measurement.suite, measurement.system, measurement.operation)
}

fn color(measurement: &Measurement) -> RGBColor {
    if measurement.system == "hive" {
        HIVE
    } else {
        PEER
    }
}

/// Operations a second, one bar each.
pub fn rates(measurements: &[Measurement]) -> String {
    bars("operations a second", measurements, "rate")
}

/// p99 latency, one bar each.
pub fn latencies(measurements: &[Measurement]) -> String {
    bars("p99 latency, ms", measurements, "p99_ms")
}

fn bars(title: &str, measurements: &[Measurement], field: &str) -> String {
    let values: Vec<f64> = measurements.iter().map(|measurement| measurement.mean(field).unwrap_or_default()).collect();
    let most = values.iter().copied().fold(1e-9, f64::max) * 1.1;
    let count = values.len();
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption(title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(10)
            .y_label_area_size(260)
            .build_cartesian_2d(0.0..most, 0.0..count as f64)?;
        chart.configure_mesh().disable_y_mesh().y_labels(0).x_labels(8).draw()?;
        for (at, measurement) in measurements.iter().enumerate() {
            // The first measurement stands on top, as in the table.
            let low = (count - 1 - at) as f64;
            chart.draw_series([Rectangle::new(
                [(0.0, low + 0.15), (values[at], low + 0.85)],
                color(measurement).filled(),
            )])?;
            let style = ("sans-serif", 13).into_text_style(area);
            let height = chart.plotting_area().get_pixel_range().1;
            let step = (height.end - height.start) as f64 / count as f64;
            let y = height.start + (step * (at as f64 + 0.5)) as i32 - 7;
            area.draw_text(&format!("{}: {}", label(measurement), values[at].round()), &style, (12, y))?;
        }
        Ok(())
    })
}

/// Writes acknowledged over time; the kill is a line.
pub fn timeline(failover: &Failover) -> String {
    let most = failover.timeline.iter().copied().max().unwrap_or(1).max(1) as f64 * 1.1;
    let end = failover.timeline.len() as f64 * failover.column_s;
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption(
                format!(
                    "writes acknowledged each {:.0} ms; node {} is killed at the line",
                    failover.column_s * 1e3,
                    failover.leader
                ),
                ("sans-serif", 18),
            )
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..end, 0.0..most)?;
        chart.configure_mesh().x_desc("seconds").draw()?;
        let points =
            failover.timeline.iter().enumerate().map(|(at, count)| (at as f64 * failover.column_s, *count as f64));
        chart.draw_series(LineSeries::new(points, HIVE.stroke_width(2)))?;
        let killed = failover.killed_at_s;
        chart.draw_series(LineSeries::new([(killed, 0.0), (killed, most)], RED.stroke_width(1)))?;
        Ok(())
    })
}

/// Failed operations second by second; the faults are shaded.
pub fn failures(run: &Availability) -> String {
    let most = f64::from(run.failed_each_second.iter().copied().max().unwrap_or(1).max(1)) * 1.1;
    let end = run.failed_each_second.len().max(1) as f64;
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .caption(
                format!("{}: failed operations each second, by when they began; faults are shaded", run.system),
                ("sans-serif", 18),
            )
            .margin(12)
            .x_label_area_size(30)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..end, 0.0..most)?;
        chart.configure_mesh().x_desc("seconds").draw()?;
        let shade = |from: u32, to: u32| {
            Rectangle::new([(f64::from(from) / 1e3, 0.0), (f64::from(to) / 1e3, most)], PEER.mix(0.25).filled())
        };
        chart.draw_series(run.windows.iter().map(|window| shade(window.from, window.to)))?;
        let points = run.failed_each_second.iter().enumerate().map(|(at, count)| (at as f64, f64::from(*count)));
        chart.draw_series(LineSeries::new(points, RED.stroke_width(1)))?;
        Ok(())
    })
}

//! A drawing of a run: throughput and latency over time, as SVG of our own.

use std::fmt::Write;

use super::outcome::Bucket;

const WIDTH: f64 = 900.0;
const PANEL: f64 = 220.0;
const LEFT: f64 = 90.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 60.0;
const GAP: f64 = 70.0;
const HEIGHT: f64 = TOP + 2.0 * PANEL + GAP + 60.0;
/// Distinct in lightness too, for those who do not see colours.
const THROUGHPUT: &str = "#1f5fa8";
const MEDIAN: &str = "#1b7f4b";
const SLOWEST: &str = "#c0392b";

/// Draws a run.
pub(crate) fn draw(title: &str, timeline: &[Bucket]) -> String {
    let end_s = timeline.last().map_or(1.0, |last| last.from_s + last.width_s);
    let middle = |bucket: &Bucket| bucket.from_s + bucket.width_s / 2.0;
    // Where nothing ended there is no latency; the rate there is zero.
    let latency = |name, colour, of: fn(&Bucket) -> f64| {
        let points = timeline.iter().filter(|bucket| bucket.jobs > 0);
        Line { name, colour, points: points.map(|bucket| (middle(bucket), of(bucket))).collect() }
    };
    let rate = Line {
        name: "jobs/s",
        colour: THROUGHPUT,
        points: timeline.iter().map(|bucket| (middle(bucket), bucket.jobs_per_s)).collect(),
    };
    let panels = [
        Panel { top: TOP, end_s, title: "jobs ended", unit: "jobs/s", lines: vec![rate] },
        Panel {
            top: TOP + PANEL + GAP,
            end_s,
            title: "enqueue to done",
            unit: "ms",
            lines: vec![
                latency("p50", MEDIAN, |bucket| bucket.enqueue_to_done_p50_ms),
                latency("p99", SLOWEST, |bucket| bucket.enqueue_to_done_p99_ms),
            ],
        },
    ];
    let mut svg = String::new();
    for panel in &panels {
        draw_panel(&mut svg, panel);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" font-family=\"sans-serif\" font-size=\"13\" \
         fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"{LEFT}\" y=\"28\" font-size=\"16\">{}</text>\n{svg}</svg>\n",
        escaped(title)
    )
}

/// A part of the picture with axes of its own.
struct Panel {
    top: f64,
    end_s: f64,
    title: &'static str,
    unit: &'static str,
    lines: Vec<Line>,
}

struct Line {
    name: &'static str,
    colour: &'static str,
    /// Seconds, and the value then.
    points: Vec<(f64, f64)>,
}

fn draw_panel(svg: &mut String, panel: &Panel) {
    let most = panel.lines.iter().flat_map(|line| &line.points).map(|(_, y)| *y);
    let most = most.fold(0.0, f64::max);
    let y_step = step(most, 5.0);
    let y_end = (most / y_step).ceil().max(1.0) * y_step;
    let x_step = step(panel.end_s, 8.0);
    let bottom = panel.top + PANEL;
    let x = |seconds: f64| LEFT + seconds / panel.end_s * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| bottom - value / y_end * PANEL;
    let mut put = |text: String| {
        svg.push_str(&text);
        svg.push('\n');
    };
    for n in 0..=(y_end / y_step).round() as usize {
        let value = n as f64 * y_step;
        put(format!(
            "<path d=\"M{LEFT} {0:.1}H{1:.1}\" stroke=\"#ddd\"/><text x=\"{2}\" y=\"{3:.1}\" \
             text-anchor=\"end\">{4}</text>",
            y(value),
            WIDTH - RIGHT,
            LEFT - 8.0,
            y(value) + 4.0,
            number(value, y_step)
        ));
    }
    for n in 0..=(panel.end_s / x_step).floor() as usize {
        let value = n as f64 * x_step;
        put(format!(
            "<path d=\"M{0:.1} {bottom}v5\" stroke=\"#222\"/><text x=\"{0:.1}\" y=\"{1}\" \
             text-anchor=\"middle\">{2}</text>",
            x(value),
            bottom + 20.0,
            number(value, x_step)
        ));
    }
    put(format!(
        "<path d=\"M{LEFT} {}V{bottom}H{}\" fill=\"none\" stroke=\"#222\"/>",
        panel.top,
        WIDTH - RIGHT
    ));
    put(format!(
        "<text x=\"{LEFT}\" y=\"{}\">{} ({})</text><text x=\"{}\" y=\"{}\" text-anchor=\"end\">\
         time since the first start (s)</text>",
        panel.top - 10.0,
        escaped(panel.title),
        escaped(panel.unit),
        WIDTH - RIGHT,
        bottom + 38.0
    ));
    for (n, Line { name, colour, points }) in panel.lines.iter().enumerate() {
        let mut path = String::new();
        for (n, (seconds, value)) in points.iter().enumerate() {
            let command = if n == 0 { 'M' } else { 'L' };
            // Writing to a string does not fail.
            let _ = write!(path, "{command}{:.1} {:.1}", x(*seconds), y(*value));
        }
        put(format!(
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"/><text x=\"{}\" y=\"{}\" text-anchor=\"end\" \
             fill=\"{colour}\">{}</text>",
            WIDTH - RIGHT - 60.0 * (panel.lines.len() - 1 - n) as f64,
            panel.top - 10.0,
            escaped(name)
        ));
    }
}

/// The distance between marks: one, two or five of a power of ten, so that there are about `marks`.
fn step(most: f64, marks: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let rough = most / marks;
    let power = 10_f64.powf(rough.log10().floor());
    let factor = [1.0, 2.0, 5.0].into_iter().find(|factor| factor * power >= rough);
    factor.unwrap_or(10.0) * power
}

/// A number beside a mark, with as many digits as tell the marks apart.
fn number(value: f64, step: f64) -> String {
    let digits = (-step.log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.digits$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_few() {
        for (most, wanted) in [(9.0, 2.0), (47_000.0, 10_000.0), (0.013, 0.005), (0.0, 1.0)] {
            assert!((step(most, 5.0) - wanted).abs() < 1e-9, "{most}: {}", step(most, 5.0));
        }
        assert_eq!(
            (number(0.15, 0.05).as_str(), number(20_000.0, 5_000.0).as_str()),
            ("0.15", "20000")
        );
    }

    #[test]
    fn a_drawing_has_both_panels_with_units_and_no_markup_of_others() {
        let bucket = |n: u32| Bucket {
            from_s: f64::from(n),
            width_s: 1.0,
            jobs: u64::from(n),
            jobs_per_s: f64::from(n),
            enqueue_to_done_p50_ms: 2.0,
            enqueue_to_done_p99_ms: 9.0,
        };
        let svg = draw("<script> & co", &[bucket(0), bucket(3), bucket(2)]);
        assert!(svg.contains("&lt;script&gt; &amp; co") && !svg.contains("<script>"));
        for part in ["jobs ended (jobs/s)", "enqueue to done (ms)", "p99", "(s)"] {
            assert!(svg.contains(part), "{part}");
        }
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!draw("nothing", &[]).contains("NaN"));
    }
}

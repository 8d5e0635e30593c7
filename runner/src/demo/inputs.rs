//! The demo's inputs, made on the spot: pictures and order files, each a little different.

use std::fmt::Write;
use std::io::Cursor;

use anyhow::Context;
use image::{ImageFormat, Rgb, RgbImage};

/// A picture of a soft gradient with a disc, of a size that varies with `n`.
pub(crate) fn picture(n: u32, format: ImageFormat) -> anyhow::Result<Vec<u8>> {
    let (width, height) = (320 + 16 * (n % 13), 240 + 16 * (n % 9));
    let (centre_x, centre_y) = (width / 2 + n % 40, height / 2);
    let radius = 40 + n % 60;
    let picture = RgbImage::from_fn(width, height, |x, y| {
        let shade = |part: u32, whole: u32| (255 * part / whole) as u8;
        let distance = x.abs_diff(centre_x).pow(2) + y.abs_diff(centre_y).pow(2);
        if distance < radius * radius {
            Rgb([250, (n * 37 % 256) as u8, 60])
        } else {
            Rgb([shade(x, width), shade(y, height), (n * 11 % 256) as u8])
        }
    });
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, format).context("the demo's picture could not be made")?;
    Ok(bytes.into_inner())
}

const PRODUCTS: [(&str, &str); 4] =
    [("Green tea", "4.50"), ("Teapot", "29.90"), ("Cup, blue", "7.25"), ("Kettle", "54.00")];
const CUSTOMERS: [&str; 5] = ["Ann", "Bob", "Chen", "Dana", "Eve"];

struct Order {
    id: u32,
    day: u32,
    customer: &'static str,
    product: &'static str,
    price: &'static str,
    quantity: u32,
    currency: &'static str,
}

fn orders(n: u32) -> impl Iterator<Item = Order> {
    (0..120 + n % 80).map(move |line| {
        let pick = line * 7 + n;
        let (product, price) = PRODUCTS[pick as usize % PRODUCTS.len()];
        Order {
            id: 1_000 * n + line,
            day: 1 + pick % 28,
            customer: CUSTOMERS[(pick / 3) as usize % CUSTOMERS.len()],
            product,
            price,
            quantity: 1 + pick % 4,
            currency: if pick.is_multiple_of(5) { "USD" } else { "EUR" },
        }
    })
}

/// A day's orders as CSV.
pub(crate) fn orders_csv(n: u32) -> String {
    let mut text = "order_id,date,customer,product,quantity,unit_price,currency\n".to_owned();
    for Order { id, day, customer, product, price, quantity, currency } in orders(n) {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{id},2026-11-{day:02},{customer},\"{product}\",{quantity},{price},{currency}"
        );
    }
    text
}

/// The same as JSON.
pub(crate) fn orders_json(n: u32) -> serde_json::Value {
    orders(n)
        .map(|order| {
            serde_json::json!({
                "order_id": order.id.to_string(),
                "date": format!("2026-11-{:02}", order.day),
                "customer": order.customer,
                "product": order.product,
                "quantity": order.quantity,
                "unit_price": order.price,
                "currency": order.currency,
            })
        })
        .collect()
}

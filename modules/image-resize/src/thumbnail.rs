//! Decoding, shrinking and encoding, each within limits.

use std::io::Cursor;

use image::codecs::jpeg::JpegEncoder;
use image::metadata::Orientation;
use image::{
    DynamicImage, ImageDecoder, ImageError, ImageFormat, ImageReader, Limits, Rgb, RgbImage,
};
use stokehold_sdk::{Blob, Failure};

use crate::options::{Format, Options};

/// A picture of more pixels is refused before it is decoded: a few kilobytes can claim to be
/// gigabytes. With what a progressive JPEG needs beside the pixels, 16 million fit in the 128 MiB
/// that an attempt has by default.
const MOST_PIXELS: u64 = 16_000_000;
/// The most that the decoded pixels may take: a pixel is one to eight bytes.
const MOST_BYTES: u64 = 80 * 1024 * 1024;

/// A thumbnail.
#[derive(Debug)]
pub(crate) struct Thumbnail {
    pub(crate) blob: Blob,
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// The original's width and height, as stored.
    pub(crate) original: (u32, u32),
}

/// Makes a picture that fits in the box the options name, never larger than the original, the
/// right way up.
pub(crate) fn make(bytes: &[u8], options: &Options) -> Result<Thumbnail, Failure> {
    let (picture, orientation, stored_as) = decode(bytes)?;
    let original = (picture.width(), picture.height());
    let mut small = shrink(picture, options, orientation);
    small.apply_orientation(orientation);
    let (width, height) = (small.width(), small.height());
    let blob = encode(small, options.format.unwrap_or(stored_as), options.quality)?;
    Ok(Thumbnail { blob, width, height, original })
}

fn decode(bytes: &[u8]) -> Result<(DynamicImage, Orientation, Format), Failure> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let format = match reader.format() {
        Some(ImageFormat::Jpeg) => Format::Jpeg,
        Some(ImageFormat::Png) => Format::Png,
        _ => return Err(bad_image("neither a JPEG nor a PNG image")),
    };
    let mut limits = Limits::default();
    limits.max_alloc = Some(MOST_BYTES);
    reader.limits(limits);
    let mut decoder = reader.into_decoder().map_err(refuse)?;
    let (width, height) = decoder.dimensions();
    let pixels = u64::from(width) * u64::from(height);
    let decoded = decoder.total_bytes();
    if pixels > MOST_PIXELS || decoded > MOST_BYTES {
        return Err(too_large(format!(
            "the image has {width}x{height} = {pixels} pixels ({decoded} bytes decoded); \
             at most {MOST_PIXELS} pixels and {MOST_BYTES} bytes are taken"
        )));
    }
    // What a camera noted about how it was held; a damaged note is no reason to refuse the image.
    let orientation = decoder.orientation().unwrap_or(Orientation::NoTransforms);
    let picture = DynamicImage::from_decoder(decoder).map_err(refuse)?;
    Ok((picture, orientation, format))
}

/// Eight bits a channel are enough for a thumbnail, and three or four channels are what both
/// formats take.
fn shrink(picture: DynamicImage, options: &Options, orientation: Orientation) -> DynamicImage {
    let picture = if picture.color().has_alpha() {
        DynamicImage::ImageRgba8(picture.into_rgba8())
    } else {
        DynamicImage::ImageRgb8(picture.into_rgb8())
    };
    // A picture that will be turned on its side has to fit the box on its side.
    let (width, height) = match orientation {
        Orientation::Rotate90
        | Orientation::Rotate270
        | Orientation::Rotate90FlipH
        | Orientation::Rotate270FlipH => (options.max_height, options.max_width),
        _ => (options.max_width, options.max_height),
    };
    if picture.width() <= width && picture.height() <= height {
        return picture;
    }
    picture.thumbnail(width, height)
}

fn encode(picture: DynamicImage, format: Format, quality: u8) -> Result<Blob, Failure> {
    let mut bytes = Vec::new();
    match format {
        Format::Jpeg => {
            let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
            on_white(picture).write_with_encoder(encoder)?;
            Ok(Blob::new("image/jpeg", bytes))
        }
        Format::Png => {
            picture.write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png)?;
            Ok(Blob::new("image/png", bytes))
        }
    }
}

/// JPEG knows no transparency: what is transparent shows white.
fn on_white(picture: DynamicImage) -> RgbImage {
    let DynamicImage::ImageRgba8(picture) = picture else {
        return picture.into_rgb8();
    };
    RgbImage::from_fn(picture.width(), picture.height(), |x, y| {
        let [red, green, blue, alpha] = picture.get_pixel(x, y).0.map(u16::from);
        let blend = |channel: u16| (channel * alpha + 255 * (255 - alpha)).div_euclid(255) as u8;
        Rgb([blend(red), blend(green), blend(blue)])
    })
}

fn refuse(error: ImageError) -> Failure {
    match error {
        ImageError::Limits(error) => too_large(format!("the image is too large: {error}")),
        error => bad_image(&format!("the image cannot be read: {error}")),
    }
}

fn bad_image(message: &str) -> Failure {
    Failure::permanent(message).code("bad-image")
}

fn too_large(message: String) -> Failure {
    Failure::permanent(message).code("too-large")
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{Rgba, RgbaImage};

    fn picture(width: u32, height: u32) -> DynamicImage {
        DynamicImage::ImageRgb8(RgbImage::from_fn(width, height, |x, y| {
            Rgb([(x % 256) as u8, (y % 256) as u8, 128])
        }))
    }

    fn bytes(picture: &DynamicImage, format: ImageFormat) -> Vec<u8> {
        let mut bytes = Vec::new();
        picture.write_to(&mut Cursor::new(&mut bytes), format).expect("encodes");
        bytes
    }

    fn refused(bytes: &[u8]) -> (String, String) {
        let failure = make(bytes, &Options::default()).expect_err("refused");
        assert!(!failure.is_retryable());
        let problem = failure.problem();
        (problem.code.clone().expect("a code"), problem.message.clone())
    }

    #[test]
    fn a_picture_shrinks_into_the_box_and_keeps_its_shape_and_format() {
        let made = make(&bytes(&picture(1000, 500), ImageFormat::Jpeg), &Options::default());
        let made = made.expect("a thumbnail");
        assert_eq!((made.width, made.height, made.original), (256, 128, (1000, 500)));
        assert_eq!(made.blob.media_type, "image/jpeg");
        let read = image::load_from_memory(&made.blob.bytes).expect("a valid JPEG");
        assert_eq!((read.width(), read.height()), (256, 128));
    }

    #[test]
    fn a_small_picture_is_not_enlarged() {
        let made = make(&bytes(&picture(20, 30), ImageFormat::Png), &Options::default());
        let made = made.expect("a thumbnail");
        assert_eq!((made.width, made.height, made.blob.media_type.as_str()), (20, 30, "image/png"));
    }

    #[test]
    fn what_is_transparent_becomes_white_in_a_jpeg() {
        let clear = DynamicImage::ImageRgba8(RgbaImage::from_pixel(8, 8, Rgba([0, 0, 0, 0])));
        let options = Options { format: Some(Format::Jpeg), ..Options::default() };
        let made = make(&bytes(&clear, ImageFormat::Png), &options).expect("a thumbnail");
        let read = image::load_from_memory(&made.blob.bytes).expect("a valid JPEG").into_rgb8();
        assert!(read.pixels().all(|pixel| pixel.0.iter().all(|&channel| channel > 250)));
    }

    #[test]
    fn a_picture_taken_on_its_side_stands_up() {
        // The marker for EXIF data, which says orientation 6: turn right by 90 degrees.
        let exif: &[u8] = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\
            \x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let plain = bytes(&picture(100, 50), ImageFormat::Jpeg);
        let turned = [&plain[..2], exif, &plain[2..]].concat();
        let options = Options { max_width: 20, max_height: 40, ..Options::default() };
        let made = make(&turned, &options).expect("a thumbnail");
        assert_eq!((made.width, made.height), (20, 40));
    }

    #[test]
    fn damaged_and_foreign_files_are_refused_for_good() {
        let whole = bytes(&picture(64, 64), ImageFormat::Png);
        assert_eq!(refused(&whole[..whole.len() / 2]).0, "bad-image");
        assert_eq!(refused(b"GIF89a").0, "bad-image");
        assert_eq!(refused(b"").0, "bad-image");
    }

    #[test]
    fn a_picture_that_claims_to_be_huge_is_refused_before_it_is_decoded() {
        let mut header = bytes(&picture(1, 1), ImageFormat::Png);
        // Width and height follow the signature and the first chunk's head; its check sum is last.
        header[16..24].copy_from_slice(&[0, 0, 0x40, 0, 0, 0, 0x40, 0]);
        let sum = check_sum(&header[12..29]);
        header[29..33].copy_from_slice(&sum.to_be_bytes());
        let (code, message) = refused(&header);
        assert_eq!(code, "too-large");
        assert!(message.contains("16384x16384"), "{message}");
    }

    /// PNG's check sum, bit by bit.
    fn check_sum(bytes: &[u8]) -> u32 {
        !bytes.iter().fold(!0_u32, |sum, &byte| {
            (0..8).fold(sum ^ u32::from(byte), |sum, _| {
                if sum & 1 == 1 { sum >> 1 ^ 0xedb8_8320 } else { sum >> 1 }
            })
        })
    }
}

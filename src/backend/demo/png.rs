//! Pictures as PNG: grey, and not compressed, as a simulation needs no more.

/// A picture of 8-bit grey dots, row by row.
pub(super) fn grey(width: usize, height: usize, dots: &[u8]) -> Vec<u8> {
    let mut rows = Vec::with_capacity((width + 1) * height);
    for row in dots.chunks(width).take(height) {
        // No filter.
        rows.push(0);
        rows.extend_from_slice(row);
    }
    let mut header = Vec::new();
    header.extend(be(width));
    header.extend(be(height));
    // 8 bits, grey, deflate, the usual filters, not interlaced.
    header.extend([8, 0, 0, 0, 0]);
    let mut file = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut file, *b"IHDR", &header);
    chunk(&mut file, *b"IDAT", &stored(&rows));
    chunk(&mut file, *b"IEND", &[]);
    file
}

fn be(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_be_bytes()
}

fn chunk(file: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    file.extend(be(data.len()));
    let from = file.len();
    file.extend(name);
    file.extend(data);
    let sum = crc(&file[from..]);
    file.extend(sum.to_be_bytes());
}

/// A zlib stream of blocks that are stored as they are.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks = data.chunks(0xffff);
    let last = blocks.len().saturating_sub(1);
    for (n, block) in blocks.enumerate() {
        let length = u16::try_from(block.len()).unwrap_or(u16::MAX);
        stream.push(u8::from(n == last));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (a, b) = data.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65_521;
        (a, (b + a) % 65_521)
    });
    stream.extend((b << 16 | a).to_be_bytes());
    stream
}

fn crc(data: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| {
            (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 }
        })
    };
    !data.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standard() {
        assert_eq!(crc(b"IEND"), 0xae42_6082);
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
        let stream = stored(b"Wikipedia");
        assert_eq!(stream[stream.len() - 4..], 0x11e6_0398_u32.to_be_bytes());
    }

    #[test]
    fn a_picture_begins_and_ends_as_one() {
        let file = grey(3, 2, &[0, 128, 255, 255, 128, 0]);
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x03\0\0\0\x02\x08"));
        assert!(file.ends_with(b"IEND\xaeB`\x82"));
    }
}

//! The example `heat`.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use tempfile::tempdir;

use crate::{complaint, ranks, said};

const POINTS: usize = 33;

/// Rows of pixels.
fn picture(path: &Path) -> Vec<Vec<[u8; 3]>> {
    let decoder = png::Decoder::new(BufReader::new(File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((info.width, info.height), (POINTS as u32, POINTS as u32));
    let pixels: Vec<_> = bytes.as_chunks().0.to_vec();
    pixels.chunks(POINTS).map(<[_]>::to_vec).collect()
}

/// Four such plates, each turned further by a quarter and added up, have 100 degrees everywhere: so a
/// plate's middle has 25.
#[test]
fn any_number_of_ranks_finds_the_same_temperatures() {
    let folder = tempdir().unwrap();
    let mut of_one = None;
    for count in [1, 2, 5, 31] {
        let path = folder.path().join(format!("{count}.png"));
        let Some(mut heat) = ranks(count, "heat") else {
            return;
        };
        heat.args(["--points", &POINTS.to_string(), "--tolerance", "1e-7"]);
        let said = said(heat.arg("--picture").arg(&path));
        assert!(said.starts_with("25.0000 degrees in the middle"), "{said}");

        let drawn = picture(&path);
        assert_eq!(drawn[0], [[255; 3]; POINTS]);
        assert_eq!(drawn[POINTS - 1], [[0; 3]; POINTS]);
        for row in &drawn {
            assert!(row.iter().eq(row.iter().rev()), "as left, so right");
        }
        let column = drawn.iter().map(|row| row[POINTS / 2]);
        assert!(column.is_sorted_by(|above, below| above >= below));
        assert_eq!(of_one.get_or_insert_with(|| drawn.clone()), &drawn);
    }
}

#[test]
fn what_cannot_be_is_said() {
    let Some(mut heat) = ranks(4, "heat") else {
        return;
    };
    let said = complaint(heat.args(["--points", "5"]));
    assert!(said.contains("4 ranks are too many for 3 rows"), "{said}");
    let said = complaint(ranks(1, "heat").unwrap().args(["--max-sweeps", "1"]));
    assert!(said.contains("after 64 sweeps"), "{said}");
    let said = complaint(ranks(1, "heat").unwrap().args(["--tolerance", "0"]));
    assert!(said.contains("at least 1e-12"), "{said}");
}

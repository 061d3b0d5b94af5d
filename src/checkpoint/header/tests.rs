//! Every refusal of a header, and what the good ones hold.

use super::*;

/// The entries of a header, as `name dtype shape start+bytes`.
fn entries(header: &str, data_len: u64) -> Result<Vec<String>, String> {
    let mut list = Vec::new();
    parse(
        Path::new("dir/shard"),
        header.as_bytes(),
        data_len,
        |entry| {
            let Entry {
                name,
                dtype,
                start,
                bytes,
                ..
            } = entry;
            list.push(format!(
                "{name} {dtype} {:?} {start}+{bytes}",
                entry.shape.dims()
            ));
            Ok(())
        },
    )
    .map_err(|error| {
        assert!(matches!(error, Error::Header { .. }), "{error}");
        error.to_string()
    })?;
    Ok(list)
}

fn refusal(header: &str, data_len: u64) -> String {
    let message = entries(header, data_len).unwrap_err();
    assert!(
        message.starts_with("dir/shard: not a valid safetensors file: "),
        "{message}"
    );
    message
}

/// One tensor `t` with these members.
fn tensor(members: &str) -> String {
    format!("{{\"t\":{{{members}}}}}")
}

/// Tensors of bytes with these offsets.
fn spans(spans: &[(u64, u64)]) -> String {
    let entries: Vec<String> = spans
        .iter()
        .enumerate()
        .map(|(n, (a, b))| {
            format!(
                "\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[{}],\"data_offsets\":[{a},{b}]}}",
                b - a
            )
        })
        .collect();
    format!("{{{}}}", entries.join(","))
}

#[test]
fn every_type_and_rank_is_read() {
    let header = r#" {"__metadata__": {"format": "pt", "x": [1, {"y": null}]},
        "a": {"dtype": "F32", "shape": [2, 3, 1, 1], "data_offsets": [0, 24], "more": {"b": [1]}},
        "b": {"data_offsets": [24, 30], "shape": [3], "dtype": "BF16"},
        "c": {"dtype": "F16", "shape": [0, 9], "data_offsets": [24, 24]},
        "d": {"dtype": "F32", "shape": [], "data_offsets": [30, 34]},
        "e": {"dtype": "U8", "shape": [2, 2], "data_offsets": [34, 38]}}   "#;
    assert_eq!(
        entries(header, 38).unwrap(),
        [
            "a F32 [2, 3, 1, 1] 0+24",
            "b BF16 [3] 24+6",
            "c F16 [0, 9] 24+0",
            "d F32 [] 30+4",
            "e U8 [2, 2] 34+4"
        ]
    );
}

#[test]
fn metadata_may_have_any_shape() {
    for metadata in ["null", "[]", "3", "\"x\"", "{\"a\":{\"b\":1}}"] {
        assert_eq!(
            entries(&format!("{{\"__metadata__\":{metadata}}}"), 0).unwrap(),
            [""; 0]
        );
    }
}

#[test]
fn escapes_in_names_are_decoded() {
    let header = r#"{"weird\\name.\"q\" \u00e9\ud83d\ude00\/":{"dt\u0079pe":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    assert_eq!(
        entries(header, 1).unwrap(),
        ["weird\\name.\"q\" \u{e9}\u{1f600}/ U8 [1] 0+1"]
    );
}

#[test]
fn trailing_commas_are_tolerated() {
    // The first entry is sound and is handed out before the comma is met: once, not twice.
    let header = r#"{"a,}":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
        "b":{"dtype":"U8","shape":[2,],"data_offsets":[1,3 , ] , },}"#;
    assert_eq!(
        entries(header, 3).unwrap(),
        ["a,} U8 [1] 0+1", "b U8 [2] 1+2"]
    );
    assert!(entries("{,}", 0).is_ok());
    for wrong in [
        "{\"t\":,}",
        "{\"a\":1,,}",
        "{,\"a\":1}",
        "{\"t\":{\"dtype\":\"U8\",\"shape\":[1,,]}}",
    ] {
        refusal(wrong, 0);
    }
}

/// Faults T5 to T8: the spans must tile the data.
#[test]
fn spans_must_tile_the_data() {
    assert!(refusal(&spans(&[(0, 16), (8, 24)]), 24).contains("overlap at byte 8"));
    assert!(refusal(&spans(&[(0, 16), (0, 16)]), 16).contains("overlap at byte 0"));
    assert!(refusal(&spans(&[(0, 16), (24, 40)]), 40).contains("bytes 16 to 24"));
    assert!(refusal(&spans(&[(8, 16)]), 16).contains("bytes 0 to 8"));
    assert!(refusal(&spans(&[(0, 16)]), 17).contains("1 bytes follow"));
    assert!(refusal(&spans(&[]), 5).contains("5 bytes follow"));
    assert_eq!(
        entries(&spans(&[(0, 16), (16, 16), (16, 24)]), 24)
            .unwrap()
            .len(),
        3
    );
    assert_eq!(
        entries(&spans(&[(16, 24), (5, 5), (0, 16)]), 24)
            .unwrap()
            .len(),
        3,
        "any order"
    );
}

/// Trouble report 11: crafted offsets whose sum overflowed passed the checks.
#[test]
fn offsets_must_be_in_the_file() {
    let offsets = |offsets: &str| {
        refusal(
            &tensor(&format!(
                "\"dtype\":\"U8\",\"shape\":[8],\"data_offsets\":{offsets}"
            )),
            16,
        )
    };
    assert!(offsets("[8,0]").contains("run backwards"));
    assert!(offsets("[16,24]").contains("ends at byte 24, but the file holds only 16"));
    for numbers in [
        "[-8,0]",
        "[0,-8]",
        "[0,8.0]",
        "[0,18446744073709551616]",
        "[0,1e300]",
        "[0,\"8\"]",
    ] {
        offsets(numbers);
    }
    // Near 2^63 and 2^64, where adding the base of the data would wrap around.
    assert!(offsets("[9223372036854775800,9223372036854775808]").contains("incomplete"));
    assert!(offsets("[18446744073709551607,18446744073709551615]").contains("incomplete"));
    for wrong in ["[]", "[0]", "[0,8,8]", "8", "null", "{}"] {
        offsets(wrong);
    }
}

/// Trouble report 11: crafted shapes whose product overflowed passed the checks.
#[test]
fn shapes_must_fit_the_span() {
    let shape = |shape: &str| {
        refusal(
            &tensor(&format!(
                "\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":[0,16]"
            )),
            16,
        )
    };
    assert!(shape("[5]").contains("takes 20 bytes, but its data_offsets span 16"));
    assert!(shape("[]").contains("takes 4 bytes"));
    assert!(shape("[0]").contains("takes 0 bytes"));
    assert!(shape("[4294967296,4294967296,1]").contains("impossibly large"));
    // The product wraps around to the right number of elements.
    assert!(shape("[4611686018427387905,4]").contains("impossibly large"));
    assert!(shape("[4,1,1,1,1]").contains("more than 4 dimensions"));
    for wrong in [
        "[-4]",
        "[-2,-2]",
        "[4.0]",
        "[null]",
        "4",
        "\"4\"",
        "[99999999999999999999]",
    ] {
        shape(wrong);
    }
}

#[test]
fn members_are_required_and_given_once() {
    for (members, wanted) in [
        ("\"shape\":[1],\"data_offsets\":[0,1]", "dtype is missing"),
        (
            "\"dtype\":\"U8\",\"data_offsets\":[0,1]",
            "shape is missing",
        ),
        ("\"dtype\":\"U8\",\"shape\":[1]", "data_offsets is missing"),
        (
            "\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]",
            "dtype is given twice",
        ),
        (
            "\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]",
            "\"F64\" is none of",
        ),
        (
            "\"dtype\":\"bf16\",\"shape\":[1],\"data_offsets\":[0,2]",
            "\"bf16\" is none of",
        ),
        (
            "\"dtype\":8,\"shape\":[1],\"data_offsets\":[0,1]",
            "a string",
        ),
    ] {
        let message = refusal(&tensor(members), 8);
        assert!(message.contains(wanted), "{message}");
    }
    assert!(refusal("{\"t\":[1]}", 0).contains("describes tensor \"t\""));
}

#[test]
fn long_names_are_refused() {
    let named = |len: usize| {
        let name = "n".repeat(len);
        format!("{{\"{name}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}}}")
    };
    assert!(entries(&named(511), 1).is_ok());
    assert!(refusal(&named(512), 1).contains("longer than 511"));
    let keyed = |len: usize| {
        tensor(&format!(
            "\"{}\":1,\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]",
            "k".repeat(len)
        ))
    };
    assert!(entries(&keyed(63), 1).is_ok());
    assert!(refusal(&keyed(64), 1).contains("longer than 63"));
}

#[test]
fn what_is_not_one_object_is_refused() {
    assert!(refusal("[]", 0).contains("does not begin with '{'"));
    assert!(refusal("", 0).contains("does not begin with '{'"));
    for wrong in [
        "{",
        "{}}",
        "{} x",
        "{\"t\"}",
        "{\"t\":{\"dtype\":\"U8\"",
        "{\"\u{1}\":1}",
        "{\"\\ud800\":1}",
    ] {
        refusal(wrong, 0);
    }
    assert!(parse(Path::new("x"), b"{\"\xff\":{}}", 0, |_| Ok(())).is_err());
    assert_eq!(entries("  {}  ", 0).unwrap(), [""; 0]);
}

/// Deep nesting, where it is skipped and where it is not wanted, ends in an answer and not in a stack overflow.
#[test]
fn depth_is_harmless() {
    let deep = "[".repeat(200_000);
    refusal(&format!("{{\"__metadata__\":{deep}"), 0);
    refusal(&format!("{{\"t\":{deep}"), 0);
    refusal(&tensor(&format!("\"shape\":{deep}")), 0);
    refusal(&tensor(&format!("\"other\":{deep}")), 0);
}

#[test]
fn what_each_returns_ends_the_pass() {
    let mut calls = 0;
    let outcome = parse(
        Path::new("x"),
        spans(&[(0, 1), (1, 2)]).as_bytes(),
        2,
        |_| {
            calls += 1;
            Err(Error::checkpoint(Path::new("y"), "stop"))
        },
    );
    assert_eq!(
        (outcome.unwrap_err().to_string().as_str(), calls),
        ("y: stop", 1)
    );
}

/// Trouble report 10: `8 + length` wrapped around, and a corrupt shard overflowed the heap.
#[test]
fn lengths_are_checked_without_adding() {
    let check = |len: u64, file: u64| length(Path::new("dir/shard"), len.to_le_bytes(), file);
    assert_eq!(check(100, 108).unwrap(), 100);
    for (len, file) in [
        (101, 108),
        (0, 108),
        (u64::MAX, 108),
        (u64::MAX - 7, 1 << 40),
        (1, 8),
        (1 << 63, 9),
    ] {
        assert!(
            check(len, file)
                .unwrap_err()
                .to_string()
                .starts_with("dir/shard: ")
        );
    }
    assert!(
        check(100_000_001, 1 << 40)
            .unwrap_err()
            .to_string()
            .contains("limit")
    );
}

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| parsers::fuzzing::multipart_form(input));

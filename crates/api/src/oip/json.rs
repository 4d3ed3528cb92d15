//! The JSON of an inference request.
//!
//! Read in one pass: tensor data is read where it stands, unless it comes before the shape or the
//! datatype that say what it is; then it is read when its object ends. Unknown keys are skipped,
//! as the protocol asks. `null` is the same as leaving an optional key out.

use std::borrow::Cow;

use bytes::Bytes;
use paceline_types::{DType, Shape, Tensor};

use super::{
    InferRequest, MAX_RANK, MAX_TENSORS, Name, OipError, ParamValue, RequestedOutput,
    elements::{self, Head},
    request::ParamsReader,
    scan::Scanner,
};

/// The raw tensors that follow the JSON, taken in the order of the inputs.
#[derive(Debug)]
pub(super) struct Tail(pub(super) Option<Bytes>);

/// Reads `text` into a request for `model`, with binary inputs from `tail`.
pub(super) fn decode(
    text: &[u8],
    tail: &mut Tail,
    model: String,
    version: Option<u64>,
) -> Result<InferRequest, OipError> {
    let mut scanner = Scanner::new(text);
    scanner.expect(b'{', "`{`")?;
    let mut id = None;
    let mut params = None;
    let mut inputs = None;
    let mut outputs = None;
    let mut first = true;
    while let Some(key) = scanner.key(first)? {
        first = false;
        match &*key {
            b"inputs" => {
                let list = read_list(&mut scanner, "inputs", |scanner, list, index| {
                    read_input(scanner, tail, list, index)
                });
                once(&scanner, "inputs", &mut inputs, list?)?;
            }
            b"id" if !scanner.eat_null() => {
                let text = scanner.string()?.into_owned();
                once(&scanner, "id", &mut id, text)?;
            }
            b"parameters" if !scanner.eat_null() => {
                let read = read_params(&mut scanner)?;
                once(&scanner, "parameters", &mut params, read)?;
            }
            b"outputs" if !scanner.eat_null() => {
                let list = read_list(&mut scanner, "outputs", read_output)?;
                once(&scanner, "outputs", &mut outputs, list)?;
            }
            b"id" | b"parameters" | b"outputs" => {}
            _ => scanner.skip()?,
        }
    }
    scanner.end()?;
    let inputs = inputs.filter(|inputs| !inputs.is_empty()).ok_or(OipError::NoInputs)?;
    Ok(InferRequest {
        model,
        version,
        id: id.filter(|id| !id.is_empty()),
        params: params.unwrap_or_default().finish()?,
        inputs,
        outputs: outputs.unwrap_or_default(),
    })
}

/// Reads a list of named tensors.
fn read_list<'a, T>(
    scanner: &mut Scanner<'a>,
    what: &'static str,
    mut read: impl FnMut(&mut Scanner<'a>, &[T], usize) -> Result<T, OipError>,
) -> Result<Vec<T>, OipError> {
    scanner.expect(b'[', "`[`")?;
    let mut list = Vec::new();
    while scanner.item(b']', list.is_empty(), "`,` or `]`")? {
        if list.len() == MAX_TENSORS {
            return Err(OipError::TooMany { what, limit: MAX_TENSORS });
        }
        scanner.expect(b'{', "`{`")?;
        let entry = read(scanner, &list, list.len())?;
        list.push(entry);
    }
    Ok(list)
}

/// What an input's object has said so far.
#[derive(Debug, Default)]
struct Input<'a> {
    name: Option<Cow<'a, str>>,
    datatype: Option<Cow<'a, str>>,
    shape: Option<Shape>,
    data: Option<Data>,
    binary_size: Option<u64>,
}

/// The data of an input, read or left for later.
#[derive(Debug)]
enum Data {
    Read(Tensor),
    At(usize),
}

fn read_input(
    scanner: &mut Scanner<'_>,
    tail: &mut Tail,
    before: &[(String, Tensor)],
    index: usize,
) -> Result<(String, Tensor), OipError> {
    let mut input = Input::default();
    let mut first = true;
    while let Some(key) = scanner.key(first)? {
        first = false;
        match &*key {
            b"name" => {
                let name = scanner.string()?;
                once(scanner, "name", &mut input.name, name)?;
            }
            b"datatype" => {
                let datatype = scanner.string()?;
                once(scanner, "datatype", &mut input.datatype, datatype)?;
            }
            b"shape" => {
                let shape = read_shape(scanner)?;
                once(scanner, "shape", &mut input.shape, shape)?;
            }
            b"parameters" if !scanner.eat_null() => {
                input.read_parameters(scanner)?;
            }
            b"parameters" => {}
            b"data" => {
                let data = input.read_data(scanner)?;
                once(scanner, "data", &mut input.data, data)?;
            }
            _ => scanner.skip()?,
        }
    }
    let Some(name) = &input.name else {
        return Err(OipError::Unnamed { list: "inputs", index });
    };
    if before.iter().any(|(known, _)| known == name) {
        return Err(OipError::RepeatedName { list: "inputs", name: Name::from(&**name) });
    }
    let tensor = match (input.data.take(), input.binary_size) {
        (Some(Data::Read(tensor)), None) => tensor,
        (Some(Data::At(start)), None) => {
            let head = input.head()?;
            head.tensor(elements::read(&mut scanner.moved(start), head)?)?
        }
        (None, Some(size)) => {
            let head = input.head()?;
            head.tensor(tail.take(head.name, size)?)?
        }
        (None, None) => {
            return Err(OipError::MissingField { input: Name::from(&**name), field: "data" });
        }
        (Some(_), Some(_)) => return Err(OipError::TwoForms { input: Name::from(&**name) }),
    };
    let name = input.name.map(Cow::into_owned).unwrap_or_default();
    Ok((name, tensor))
}

impl Input<'_> {
    /// Everything but the data, where all of it has been said.
    fn head(&self) -> Result<Head<'_>, OipError> {
        let name = self.name.as_deref().unwrap_or_default();
        let missing = |field| OipError::MissingField { input: name.into(), field };
        let datatype = self.datatype.as_deref().ok_or_else(|| missing("datatype"))?;
        let shape = self.shape.as_deref().ok_or_else(|| missing("shape"))?;
        Ok(Head { name, dtype: parse_dtype(name, datatype)?, shape })
    }

    fn read_data(&self, scanner: &mut Scanner<'_>) -> Result<Data, OipError> {
        if self.name.is_some() && self.datatype.is_some() && self.shape.is_some() {
            let head = self.head()?;
            return Ok(Data::Read(head.tensor(elements::read(scanner, head)?)?));
        }
        scanner.peek();
        let start = scanner.at();
        scanner.skip()?;
        Ok(Data::At(start))
    }

    fn read_parameters(&mut self, scanner: &mut Scanner<'_>) -> Result<(), OipError> {
        scanner.expect(b'{', "`{`")?;
        let mut first = true;
        while let Some(key) = scanner.key(first)? {
            first = false;
            match &*key {
                b"binary_data_size" => {
                    let size = scanner.unsigned().ok_or_else(|| OipError::BadParameter {
                        name: Name::from("binary_data_size"),
                        expected: "a number of bytes",
                    })?;
                    once(scanner, "binary_data_size", &mut self.binary_size, size)?;
                }
                b"shared_memory_region" => {
                    let tensor = self.name.as_deref().unwrap_or("an input").into();
                    return Err(OipError::SharedMemory { tensor });
                }
                _ => scanner.skip()?,
            }
        }
        Ok(())
    }
}

fn read_output(
    scanner: &mut Scanner<'_>,
    before: &[RequestedOutput],
    index: usize,
) -> Result<RequestedOutput, OipError> {
    let mut name = None;
    let mut binary = None;
    let mut classes = None;
    let mut first = true;
    while let Some(key) = scanner.key(first)? {
        first = false;
        match &*key {
            b"name" => {
                let text = scanner.string()?;
                once(scanner, "name", &mut name, text)?;
            }
            b"parameters" if !scanner.eat_null() => {
                scanner.expect(b'{', "`{`")?;
                let mut first = true;
                while let Some(key) = scanner.key(first)? {
                    first = false;
                    match &*key {
                        b"binary_data" | b"classification" => {
                            let key = key_text(scanner, &key)?;
                            let value = read_value(scanner, key)?;
                            output_parameter(key, value.as_ref(), &mut binary, &mut classes)?;
                        }
                        b"shared_memory_region" => {
                            let tensor = name.as_deref().unwrap_or("an output").into();
                            return Err(OipError::SharedMemory { tensor });
                        }
                        _ => scanner.skip()?,
                    }
                }
            }
            b"parameters" => {}
            _ => scanner.skip()?,
        }
    }
    let name = name.ok_or(OipError::Unnamed { list: "outputs", index })?;
    if before.iter().any(|known| known.name == name) {
        return Err(OipError::RepeatedName { list: "outputs", name: Name::from(&*name) });
    }
    Ok(RequestedOutput { name: name.into_owned(), binary, classes })
}

/// Takes a parameter of a requested output that has a meaning, from either wire.
pub(super) fn output_parameter(
    key: &str,
    value: Option<&ParamValue>,
    binary: &mut Option<bool>,
    classes: &mut Option<u32>,
) -> Result<(), OipError> {
    let wrong = |expected| OipError::BadParameter { name: key.into(), expected };
    let Some(value) = value else { return Ok(()) };
    if key == "binary_data" {
        *binary = Some(value.as_bool().ok_or_else(|| wrong("true or false"))?);
    } else {
        let count = value.as_u64().and_then(|count| u32::try_from(count).ok());
        let count = count.ok_or_else(|| wrong("a number of classes"))?;
        *classes = (count > 0).then_some(count);
    }
    Ok(())
}

fn read_params(scanner: &mut Scanner<'_>) -> Result<ParamsReader, OipError> {
    scanner.expect(b'{', "`{`")?;
    let mut params = ParamsReader::default();
    let mut first = true;
    while let Some(key) = scanner.key(first)? {
        first = false;
        let key = key_text(scanner, &key)?;
        if let Some(value) = read_value(scanner, key)? {
            params.read(key, value)?;
        }
    }
    Ok(params)
}

/// The key of a parameter, which is kept and so must be text.
fn key_text<'k>(scanner: &Scanner<'_>, key: &'k [u8]) -> Result<&'k str, OipError> {
    std::str::from_utf8(key).map_err(|_| scanner.fault("a key before it that is UTF-8 text"))
}

/// A parameter's value; `None` for `null`.
fn read_value(scanner: &mut Scanner<'_>, key: &str) -> Result<Option<ParamValue>, OipError> {
    let value = match scanner.peek() {
        Some(b'"') => ParamValue::Text(scanner.string()?.into_owned()),
        Some(b't') if scanner.eat_word(b"true") => ParamValue::Bool(true),
        Some(b'f') if scanner.eat_word(b"false") => ParamValue::Bool(false),
        Some(b'n') if scanner.eat_word(b"null") => return Ok(None),
        Some(b'{' | b'[') => {
            return Err(OipError::BadParameter {
                name: key.into(),
                expected: "a number, a string, true or false",
            });
        }
        _ => {
            let text = scanner.number().ok_or_else(|| scanner.fault("a value"))?;
            let int = text.parse().map(ParamValue::Int);
            let value = int.or_else(|_| text.parse().map(ParamValue::Uint)).ok();
            let float = || text.parse().ok().filter(|value: &f64| value.is_finite());
            value.or_else(|| float().map(ParamValue::Float)).ok_or_else(|| {
                OipError::BadParameter { name: key.into(), expected: "a number within range" }
            })?
        }
    };
    Ok(Some(value))
}

fn read_shape(scanner: &mut Scanner<'_>) -> Result<Shape, OipError> {
    scanner.expect(b'[', "`[`")?;
    let mut shape = Shape::new();
    while scanner.item(b']', shape.is_empty(), "`,` or `]`")? {
        if shape.len() == MAX_RANK {
            return Err(OipError::TooManyExtents);
        }
        let extent = scanner.unsigned().and_then(|extent| usize::try_from(extent).ok());
        shape.push(extent.ok_or_else(|| scanner.fault("an extent, which is not negative,"))?);
    }
    Ok(shape)
}

/// The datatype of that name.
pub(super) fn parse_dtype(input: &str, given: &str) -> Result<DType, OipError> {
    // A closed match is several times faster than asking each type for its name.
    Ok(match given {
        "FP32" => DType::F32,
        "UINT8" => DType::U8,
        "INT64" => DType::I64,
        "INT32" => DType::I32,
        "BYTES" => DType::Bytes,
        "FP16" => DType::F16,
        "BF16" => DType::BF16,
        "FP64" => DType::F64,
        "BOOL" => DType::Bool,
        "INT8" => DType::I8,
        "INT16" => DType::I16,
        "UINT16" => DType::U16,
        "UINT32" => DType::U32,
        "UINT64" => DType::U64,
        _ => {
            return Err(OipError::UnknownDatatype { input: input.into(), given: given.into() });
        }
    })
}

/// Fills a slot that may be filled once.
fn once<T>(
    scanner: &Scanner<'_>,
    key: &'static str,
    slot: &mut Option<T>,
    value: T,
) -> Result<(), OipError> {
    if slot.replace(value).is_some() {
        return Err(OipError::RepeatedKey { key, at: scanner.at() });
    }
    Ok(())
}

impl Tail {
    fn take(&mut self, input: &str, announced: u64) -> Result<Bytes, OipError> {
        let Some(left) = &mut self.0 else {
            return Err(OipError::NoBinarySection { input: input.into() });
        };
        match usize::try_from(announced) {
            Ok(size) if size <= left.len() => Ok(left.split_to(size)),
            _ => {
                Err(OipError::BinaryBeyondBody { input: input.into(), announced, left: left.len() })
            }
        }
    }
}

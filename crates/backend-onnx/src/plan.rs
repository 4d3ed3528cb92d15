//! Who fills each input and who reads each output. Pure: the file's words and the options in, the
//! signature out.

use paceline_backend::StateSpec;
use paceline_types::{Dim, Signature, Tensor, TensorSpec};

use crate::{
    error::{LoadError, Side},
    graph::{Graph, Port},
    options::OnnxOptions,
};

/// A model's ends in the order in which tensors are handed over.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) signature: Signature,
    pub(crate) states: Vec<StateSpec>,
    /// The signature's inputs, then the states, then the constants.
    pub(crate) inputs: Vec<Port>,
    /// The signature's outputs, then the next states.
    pub(crate) outputs: Vec<Port>,
    /// The values of the last inputs.
    pub(crate) constants: Vec<Tensor>,
}

impl Plan {
    pub(crate) fn build(graph: &Graph, options: &OnnxOptions) -> Result<Self, LoadError> {
        let all_inputs = corrected(&graph.inputs, options);
        let all_outputs = corrected(&graph.outputs, options);
        for (name, _) in &options.shapes {
            if !all_outputs.iter().any(|port| port.name == *name) {
                find("shapes", Side::Input, &all_inputs, name)?;
            }
        }

        let links = &options.states;
        let is_fed = |name: &str| {
            links.iter().any(|link| link.input == name)
                || options.constants.iter().any(|(constant, _)| constant == name)
        };
        let mut inputs: Vec<Port> =
            all_inputs.iter().filter(|port| !is_fed(&port.name)).cloned().collect();
        let mut outputs: Vec<Port> = all_outputs
            .iter()
            .filter(|port| !links.iter().any(|link| link.output == port.name))
            .cloned()
            .collect();
        let batched = batched(&inputs, options.batched)?;
        let signature = Signature {
            inputs: inputs
                .iter()
                .map(|port| input_spec(port, batched))
                .collect::<Result<_, _>>()?,
            outputs: outputs
                .iter()
                .map(|port| output_spec(port, batched))
                .collect::<Result<_, _>>()?,
            batched,
        };

        let mut states = Vec::new();
        for link in links {
            let input = find("states", Side::Input, &all_inputs, &link.input)?;
            let output = find("states", Side::Output, &all_outputs, &link.output)?;
            states.push(state_spec(input, output, link.batch_axis, batched)?);
            inputs.push(input.clone());
            outputs.push(output.clone());
        }
        let mut constants = Vec::new();
        for (name, value) in &options.constants {
            let port = find("constants", Side::Input, &all_inputs, name)?;
            check_constant(port, value)?;
            inputs.push(port.clone());
            constants.push(value.clone());
        }
        for (index, port) in inputs.iter().enumerate() {
            if inputs[..index].iter().any(|earlier| earlier.name == port.name) {
                return Err(LoadError::TwoRoles { name: port.name.clone() });
            }
        }
        Ok(Self { signature, states, inputs, outputs, constants })
    }
}

/// The ports with the shapes that the options give in place of the file's.
fn corrected(ports: &[Port], options: &OnnxOptions) -> Vec<Port> {
    let shape_of = |name: &str| options.shapes.iter().find(|(given, _)| given == name);
    ports
        .iter()
        .map(|port| match shape_of(&port.name) {
            Some((_, dims)) => Port { dims: Some(dims.clone()), ..port.clone() },
            None => port.clone(),
        })
        .collect()
}

fn find<'a>(
    option: &'static str,
    side: Side,
    ports: &'a [Port],
    name: &str,
) -> Result<&'a Port, LoadError> {
    ports.iter().find(|port| port.name == name).ok_or_else(|| LoadError::UnknownName {
        option,
        side,
        name: name.to_owned(),
        known: ports.iter().map(|port| &*port.name).collect::<Vec<_>>().join(", "),
    })
}

/// Whether the inputs share a leading batch extent.
fn batched(inputs: &[Port], declared: Option<bool>) -> Result<bool, LoadError> {
    if declared == Some(false) {
        return Ok(false);
    }
    let mut dynamic = None;
    let mut fixed = None;
    for port in inputs {
        let dims = dims_of(Side::Input, port)?;
        match dims.first() {
            Some(Dim::Any) => dynamic.get_or_insert(port),
            _ => fixed.get_or_insert(port),
        };
    }
    match (declared, dynamic, fixed) {
        (Some(true), _, Some(port)) => Err(LoadError::FixedBatch {
            side: Side::Input,
            name: port.name.clone(),
            lead: lead_text(port),
        }),
        (None, Some(other), Some(port)) => Err(LoadError::MixedBatch {
            name: port.name.clone(),
            lead: lead_text(port),
            other: other.name.clone(),
        }),
        (_, dynamic, _) => Ok(dynamic.is_some()),
    }
}

fn dims_of(side: Side, port: &Port) -> Result<&[Dim], LoadError> {
    port.dims.as_deref().ok_or_else(|| LoadError::NoShape { side, name: port.name.clone() })
}

/// What a shape leads with, for a reader.
fn lead_text(port: &Port) -> String {
    match port.dims.as_deref().and_then(<[Dim]>::first) {
        Some(Dim::Fixed(extent)) => format!("the fixed extent {extent}"),
        Some(Dim::Any) => "a dynamic extent".to_owned(),
        None => "no extent at all".to_owned(),
    }
}

fn spec(port: &Port, dims: Vec<Dim>) -> TensorSpec {
    TensorSpec { name: port.name.clone(), dtype: port.dtype, dims }
}

fn input_spec(port: &Port, batched: bool) -> Result<TensorSpec, LoadError> {
    let dims = dims_of(Side::Input, port)?;
    // `batched` has seen that every input leads with a dynamic extent.
    Ok(spec(port, dims.iter().skip(usize::from(batched)).copied().collect()))
}

fn output_spec(port: &Port, batched: bool) -> Result<TensorSpec, LoadError> {
    let dims = dims_of(Side::Output, port)?;
    match (batched, dims) {
        (false, dims) => Ok(spec(port, dims.to_vec())),
        (true, [Dim::Any, rest @ ..]) => Ok(spec(port, rest.to_vec())),
        (true, _) => Err(LoadError::FixedOutput { name: port.name.clone(), lead: lead_text(port) }),
    }
}

fn state_spec(
    input: &Port,
    output: &Port,
    batch_axis: usize,
    batched: bool,
) -> Result<StateSpec, LoadError> {
    let refuse = |problem: String| LoadError::State {
        input: input.name.clone(),
        output: output.name.clone(),
        problem,
    };
    if input.dtype != output.dtype {
        return Err(refuse(format!("they are {} and {}", input.dtype, output.dtype)));
    }
    let mut dims = dims_of(Side::Input, input)?.to_vec();
    if batched {
        match dims.get(batch_axis) {
            Some(Dim::Any) => drop(dims.remove(batch_axis)),
            Some(Dim::Fixed(extent)) => {
                let problem = "is fixed, so streams cannot share a call";
                return Err(refuse(format!("extent {extent} at axis {batch_axis} {problem}")));
            }
            None => {
                return Err(refuse(format!("it has no axis {batch_axis}, but {}", dims.len())));
            }
        }
    }
    Ok(StateSpec { input: spec(input, dims), output: output.name.clone(), batch_axis })
}

fn check_constant(port: &Port, value: &Tensor) -> Result<(), LoadError> {
    let fits = port.dims.as_ref().is_none_or(|dims| {
        dims.len() == value.shape().len()
            && dims.iter().zip(value.shape()).all(|(dim, extent)| match dim {
                Dim::Fixed(fixed) => fixed == extent,
                Dim::Any => true,
            })
    });
    if fits && port.dtype == value.dtype() {
        return Ok(());
    }
    let dims = port.dims.iter().flatten().map(Dim::to_string).collect::<Vec<_>>().join(", ");
    Err(LoadError::Constant {
        name: port.name.clone(),
        expected: format!("{} of shape [{dims}]", port.dtype),
        actual: format!("{} of shape {:?}", value.dtype(), value.shape()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::StateLink;
    use paceline_types::DType;

    const ANY: i64 = -1;

    fn port(name: &str, dims: &[i64]) -> Port {
        let dim = |&extent: &i64| usize::try_from(extent).map_or(Dim::Any, Dim::Fixed);
        Port {
            name: name.to_owned(),
            dtype: DType::F32,
            dims: Some(dims.iter().map(dim).collect()),
        }
    }

    fn graph(inputs: &[Port], outputs: &[Port]) -> Graph {
        Graph {
            inputs: inputs.to_vec(),
            outputs: outputs.to_vec(),
            bytes: Vec::new(),
            has_external_data: false,
        }
    }

    fn options() -> OnnxOptions {
        OnnxOptions::new("model.onnx")
    }

    fn error(inputs: &[Port], outputs: &[Port], options: &OnnxOptions) -> String {
        Plan::build(&graph(inputs, outputs), options).unwrap_err().to_string()
    }

    #[test]
    fn inputs_that_lead_with_a_dynamic_extent_make_a_batched_model() {
        let graph = graph(&[port("x", &[ANY, 3])], &[port("y", &[ANY])]);

        let plan = Plan::build(&graph, &options()).unwrap();

        assert!(plan.signature.batched);
        assert_eq!(plan.signature.inputs[0].dims, [Dim::Fixed(3)]);
        assert_eq!(plan.signature.outputs[0].dims, []);
    }

    #[test]
    fn a_model_of_fixed_extents_is_not_batched_and_lists_them_all() {
        let graph = graph(&[port("x", &[1, 3])], &[port("y", &[1])]);

        let plan = Plan::build(&graph, &options()).unwrap();

        assert!(!plan.signature.batched);
        assert_eq!(plan.signature.inputs[0].dims, [Dim::Fixed(1), Dim::Fixed(3)]);
    }

    #[test]
    fn what_stands_against_a_batch_is_named() {
        let declared = OnnxOptions { batched: Some(true), ..options() };
        let y = [port("y", &[ANY])];

        assert!(
            error(&[port("x", &[1, 3])], &y, &declared)
                .contains("`batched` is set, but input `x` leads with the fixed extent 1")
        );
        assert!(error(&[port("x", &[ANY]), port("rate", &[])], &y, &options()).contains(
            "input `rate` leads with no extent at all where `x` leads with a dynamic extent"
        ));
        assert!(
            error(&[port("x", &[ANY])], &[port("y", &[1])], &options())
                .contains("output `y` leads with the fixed extent 1")
        );
        let bare = Port { dims: None, ..port("y", &[]) };
        assert!(
            error(&[port("x", &[ANY])], &[bare], &options()).contains("output `y` has no shape")
        );
    }

    #[test]
    fn given_shapes_stand_in_for_the_files() {
        let bare = Port { dims: None, ..port("y", &[]) };
        let shapes = vec![("y".to_owned(), vec![Dim::Any, Dim::Fixed(2)])];

        let plan = Plan::build(
            &graph(&[port("x", &[ANY])], &[bare]),
            &OnnxOptions { shapes, ..options() },
        )
        .unwrap();

        assert_eq!(plan.signature.outputs[0].dims, [Dim::Fixed(2)]);
    }

    #[test]
    fn states_and_constants_leave_the_signature_and_come_last() {
        let graph = graph(
            &[port("state", &[2, ANY, 8]), port("rate", &[]), port("x", &[ANY, 4])],
            &[port("next", &[2, ANY, 8]), port("y", &[ANY, 1])],
        );
        let link =
            StateLink { input: "state".to_owned(), output: "next".to_owned(), batch_axis: 1 };
        let rate = Tensor::from_f32(&[], &[16.0]).unwrap();

        let plan = Plan::build(
            &graph,
            &OnnxOptions {
                states: vec![link],
                constants: vec![("rate".to_owned(), rate)],
                ..options()
            },
        )
        .unwrap();

        let names = |ports: &[Port]| ports.iter().map(|port| port.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&plan.inputs), ["x", "state", "rate"]);
        assert_eq!(names(&plan.outputs), ["y", "next"]);
        assert_eq!(plan.signature.inputs.len(), 1);
        assert_eq!(plan.states[0].input.dims, [Dim::Fixed(2), Dim::Fixed(8)]);
    }

    #[test]
    fn a_name_that_the_model_does_not_have_is_answered_with_those_it_has() {
        let inputs = [port("x", &[ANY])];
        let outputs = [port("y", &[ANY])];
        let link = |input: &str, output: &str| StateLink {
            input: input.to_owned(),
            output: output.to_owned(),
            batch_axis: 0,
        };

        let unknown = OnnxOptions { states: vec![link("x", "z")], ..options() };
        assert!(
            error(&inputs, &outputs, &unknown)
                .contains("`states` names output `z`, which the model does not have; it has y")
        );
        let one = Tensor::from_f32(&[1], &[1.0]).unwrap();
        let twice = OnnxOptions {
            states: vec![link("x", "y")],
            constants: vec![("x".to_owned(), one)],
            ..options()
        };
        assert!(error(&inputs, &outputs, &twice).contains("`x` is given more than one role"));
    }
}

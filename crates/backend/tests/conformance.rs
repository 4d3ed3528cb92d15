//! The simulated model passes the suite, and a model with any one fault does not.

use paceline_backend::{
    Backend, BackendError, Call, Outputs, Simulated, StateSpec, conformance,
    simulated::{Answer, Settings},
};
use paceline_types::{DType, Dim, Signature, Tensor, TensorSpec};

#[test]
fn the_simulated_model_conforms_in_every_datatype() {
    for dtype in DType::ALL {
        for answer in [Answer::Identity, Answer::Count] {
            let settings = Settings { dtype, answer, ..Settings::default() };
            let build = || Ok(Box::new(Simulated::build(settings.clone(), 0).unwrap()) as _);
            conformance::check(build).unwrap_or_else(|fault| panic!("{dtype} {answer:?}: {fault}"));
        }
    }
}

/// `y = x + state`, and the next state the same; or nearly.
struct Faulty {
    signature: Signature,
    states: Vec<StateSpec>,
    fault: &'static str,
    n_calls: usize,
}

#[expect(clippy::unnecessary_wraps, reason = "the form that the suite takes")]
fn faulty(fault: &'static str) -> Result<Box<dyn Backend>, BackendError> {
    let spec = |name: &str| TensorSpec {
        name: name.to_owned(),
        dtype: DType::F32,
        dims: vec![Dim::Fixed(3)],
    };
    let state = StateSpec { input: spec("s"), output: "t".to_owned(), batch_axis: 0 };
    let output = if fault == "twice" { "t" } else { "y" };
    Ok(Box::new(Faulty {
        signature: Signature {
            inputs: vec![spec("x")],
            outputs: vec![spec(output)],
            batched: true,
        },
        states: vec![state],
        fault,
        n_calls: 0,
    }))
}

impl Backend for Faulty {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn states(&self) -> &[StateSpec] {
        &self.states
    }

    fn run(&mut self, call: &Call<'_>) -> Result<Outputs, BackendError> {
        let failed = |message: &str| BackendError::Failed(message.to_owned());
        self.n_calls += 1;
        let rows = call.rows;
        let [x, s] = call.inputs else {
            assert!(self.fault != "panics", "one input is missing");
            return if self.fault == "lax" { Ok(Outputs::default()) } else { Err(failed("two")) };
        };
        if self.fault == "aligned" && x.data().as_ptr().addr() % 4 != 0 {
            return Err(failed("unaligned"));
        }
        if x.shape() != [rows, 3] {
            return Err(failed("shape"));
        }
        let (x, s) = (x.to_f32().unwrap(), s.to_f32().unwrap());
        let mut y: Vec<f32> = x.iter().zip(&s).map(|(x, s)| x + s).collect();
        match self.fault {
            "neighbours" => y[0] += *x.last().unwrap(),
            "places" => y.iter_mut().enumerate().for_each(|(at, y)| *y += (at / 3) as f32),
            "remembers" => y[0] += self.n_calls as f32,
            _ => {}
        }
        let next =
            if self.fault == "mixes state" { y.iter().map(|_| y[0]).collect() } else { y.clone() };
        let y = match self.fault {
            "shape" => Tensor::from_f32(&[rows * 3], &y),
            _ => Tensor::from_f32(&[rows, 3], &y),
        };
        let mut tensors = vec![y.unwrap(), Tensor::from_f32(&[rows, 3], &next).unwrap()];
        if self.fault == "few" {
            tensors.pop();
        }
        Ok(Outputs { tensors, failed: Vec::new() })
    }
}

#[test]
fn a_model_with_state_conforms_and_any_one_fault_is_found_and_named() {
    conformance::check(|| faulty("")).unwrap();
    for (fault, words) in [
        ("twice", "it declares `t` twice"),
        ("few", "it gives 1 tensors of 2"),
        ("shape", "output `y` is FP32 [15] in a call of 5 rows, which is not as declared"),
        ("remembers", "the same call again has another answer"),
        ("aligned", "a good call of 5 rows fails: unaligned"),
        ("lax", "it takes a call with an input missing"),
        ("panics", "it panics on a call of 5 rows"),
        ("neighbours", "row 0 alone has another answer"),
        ("places", "row 1 alone has another answer"),
        ("mixes state", "row 1 alone has another answer"),
    ] {
        let found = conformance::check(|| faulty(fault)).unwrap_err().to_string();
        assert!(found.contains(words), "{fault}: {found}");
    }
}

//! An endpoint that is spoken to over HTTP/1.1, its tensors as bytes behind a JSON head. As many
//! connections are kept as were needed at once.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use paceline_types::TraceContext;
use serde::{Deserialize, Serialize};

use crate::{
    Endpoint, RemoteOptions,
    body::Parts,
    fault::{Fault, causes, words},
    wire::{About, AboutTensor, Ask, Given},
};

/// Says how long the JSON head of a body is.
const HEAD_LENGTH: &str = "inference-header-content-length";
/// How long a connection is kept that nobody uses. Shorter than servers keep theirs, so that few
/// are closed from the other side just when they are used.
const IDLE: Duration = Duration::from_secs(20);

/// An endpoint that is spoken to over HTTP/1.1.
#[derive(Debug)]
pub(crate) struct HttpWire {
    client: Client<HttpConnector, Parts>,
    /// Where the model is: `http://host:port/v2/models/NAME[/versions/VERSION]`.
    model: String,
    authorization: Option<HeaderValue>,
    max_response: usize,
}

/// What stands before the tensors of a request.
#[derive(Serialize)]
struct AskHead<'a> {
    parameters: AskParameters,
    inputs: Vec<AskInput<'a>>,
    outputs: Vec<AskOutput<'a>>,
}

#[derive(Serialize)]
struct AskParameters {
    /// In microseconds.
    timeout: u64,
}

#[derive(Serialize)]
struct AskInput<'a> {
    name: &'a str,
    shape: &'a [usize],
    datatype: &'static str,
    parameters: Binary,
}

#[derive(Serialize)]
struct AskOutput<'a> {
    name: &'a str,
    parameters: WantBinary,
}

#[derive(Serialize)]
struct WantBinary {
    binary_data: bool,
}

#[derive(Serialize, Deserialize, Default)]
struct Binary {
    #[serde(default)]
    binary_data_size: Option<usize>,
}

/// What stands before the tensors of an answer.
#[derive(Deserialize)]
struct AnswerHead {
    outputs: Vec<AnswerOutput>,
}

#[derive(Deserialize)]
struct AnswerOutput {
    #[serde(flatten)]
    about: AboutTensor,
    #[serde(default)]
    parameters: Binary,
}

#[derive(Deserialize)]
struct MetadataAnswer {
    inputs: Vec<AboutTensor>,
    outputs: Vec<AboutTensor>,
}

#[derive(Deserialize)]
struct ConfigAnswer {
    max_batch_size: Option<i64>,
}

#[derive(Deserialize)]
struct ErrorAnswer {
    error: String,
}

impl HttpWire {
    pub(crate) fn new(endpoint: &Endpoint, options: &RemoteOptions) -> Result<Self, String> {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(options.connect_timeout));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .build(connector);
        let version = options.version.map(|version| format!("/versions/{version}"));
        let version = version.unwrap_or_default();
        let model = format!("http://{}/v2/models/{}{version}", endpoint.authority, options.model);
        model.parse::<Uri>().map_err(|error| format!("`{model}` is no address: {error}"))?;
        let token = options.token.as_ref().map(|token| format!("Bearer {token}").parse());
        let authorization = token
            .transpose()
            .map_err(|_| "the token has letters that cannot be sent".to_owned())?;
        Ok(Self { client, model, authorization, max_response: options.max_response })
    }

    pub(crate) async fn check_ready(&self) -> Result<(), Fault> {
        self.get("/ready").await.map(drop)
    }

    pub(crate) async fn about(&self) -> Result<About, Fault> {
        let MetadataAnswer { inputs, outputs } = read(&self.get("").await?)?;
        // Not every server has configurations to show.
        let max_batch = match self.get("/config").await {
            Ok(body) => read::<ConfigAnswer>(&body)?.max_batch_size.or(Some(0)),
            Err(Fault::Refused(_) | Fault::Failed(_)) => None,
            Err(fault) => return Err(fault),
        };
        Ok(About { inputs, outputs, max_batch })
    }

    pub(crate) async fn infer(&self, ask: &Ask<'_>) -> Result<Vec<Given>, Fault> {
        let signature = &ask.declared.signature;
        let mut body = Parts::default();
        let inputs = signature.inputs.iter().zip(ask.inputs).map(|(spec, input)| AskInput {
            name: &spec.name,
            shape: input.shape(),
            datatype: input.dtype().as_str(),
            parameters: Binary { binary_data_size: Some(body.push_tensor(input)) },
        });
        let head = serde_json::to_vec(&AskHead {
            parameters: AskParameters {
                timeout: u64::try_from(ask.patience().as_micros()).unwrap_or(u64::MAX),
            },
            inputs: inputs.collect(),
            outputs: signature
                .outputs
                .iter()
                .map(|spec| AskOutput {
                    name: &spec.name,
                    parameters: WantBinary { binary_data: true },
                })
                .collect(),
        });
        let head = head.map_err(|error| Fault::NotSent(error.to_string()))?;
        let n_head = head.len();
        body.put_first(head.into());
        let (n_head, answer) =
            self.ask(Method::POST, "/infer", body, Some((n_head, ask.trace))).await?;
        take_apart(&answer, n_head)
    }

    async fn get(&self, path: &str) -> Result<Bytes, Fault> {
        Ok(self.ask(Method::GET, path, Parts::default(), None).await?.1)
    }

    /// One request; of a call, how long its head is and where it stands in a trace. How long the head
    /// of the answer is, where it says so, and its body.
    async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Parts,
        call: Option<(usize, Option<TraceContext>)>,
    ) -> Result<(Option<usize>, Bytes), Fault> {
        let mut request = Request::builder().method(method).uri(format!("{}{path}", self.model));
        if let Some((n_head, trace)) = call {
            request = request
                .header(HEAD_LENGTH, n_head)
                .header(header::CONTENT_TYPE, "application/octet-stream");
            if let Some(trace) = trace {
                request = request.header("traceparent", trace.to_string());
            }
        }
        if let Some(authorization) = &self.authorization {
            request = request.header(header::AUTHORIZATION, authorization);
        }
        let request = request.body(body).map_err(|error| Fault::NotSent(error.to_string()))?;
        let answer = self.client.request(request).await.map_err(|error| {
            let causes = causes(&error);
            let said = causes.last().map_or_else(|| error.to_string(), ToString::to_string);
            if error.is_connect() {
                Fault::NotSent(words(&said))
            } else {
                Fault::Broken(words(&said))
            }
        })?;
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.max_response).collect().await.map_err(|error| {
            if error.is::<LengthLimitError>() {
                Fault::Garbage(format!("it has more than {} bytes", self.max_response))
            } else {
                Fault::Broken(words(&error.to_string()))
            }
        })?;
        let body = body.to_bytes();
        if head.status != StatusCode::OK {
            return Err(refusal(head.status, &body));
        }
        let n_head = head.headers.get(HEAD_LENGTH);
        let n_head = n_head.map(|length| length.to_str().ok().and_then(|text| text.parse().ok()));
        match n_head {
            Some(None) => Err(Fault::Garbage(format!("its {HEAD_LENGTH} is no number"))),
            n_head => Ok((n_head.flatten(), body)),
        }
    }
}

/// The outputs of an answer whose JSON head has so many bytes.
fn take_apart(answer: &Bytes, n_head: Option<usize>) -> Result<Vec<Given>, Fault> {
    let n_head = n_head.unwrap_or(answer.len());
    if answer.len() < n_head {
        return Err(Fault::Garbage(format!(
            "a head of {n_head} bytes in a body of {}",
            answer.len()
        )));
    }
    let AnswerHead { outputs } = read(&answer[..n_head])?;
    let mut at = n_head;
    let given = outputs.into_iter().map(|AnswerOutput { about, parameters }| {
        let Some(n_bytes) = parameters.binary_data_size else {
            return Err(Fault::Garbage(format!(
                "output `{}` is not binary; use a server with the binary tensor extension, or gRPC",
                words(&about.name)
            )));
        };
        let end = at.checked_add(n_bytes).filter(|end| *end <= answer.len());
        let end = end.ok_or_else(|| {
            Fault::Garbage(format!(
                "output `{}` is said to have {n_bytes} bytes and does not",
                words(&about.name)
            ))
        })?;
        let data = answer.slice(at..end);
        at = end;
        Ok(Given { about, data })
    });
    given.collect()
}

fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Fault> {
    serde_json::from_slice(body).map_err(|error| Fault::Garbage(words(&error.to_string())))
}

/// What a status other than OK means.
fn refusal(status: StatusCode, body: &[u8]) -> Fault {
    let said = serde_json::from_slice::<ErrorAnswer>(body).map(|answer| words(&answer.error));
    let said = said.ok().filter(|said| !said.is_empty()).map(|said| format!(": {said}"));
    let said = format!("{}{}", status.as_u16(), said.unwrap_or_default());
    match status {
        StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::NOT_FOUND
        | StatusCode::METHOD_NOT_ALLOWED
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN => Fault::Refused(said),
        StatusCode::GATEWAY_TIMEOUT | StatusCode::REQUEST_TIMEOUT | StatusCode::BAD_GATEWAY => {
            Fault::Broken(said)
        }
        status if status.is_success() || status.is_redirection() => Fault::Garbage(said),
        _ => Fault::Failed(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEAD: &[u8] = br#"{"outputs":[{"name":"y","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}]}"#;

    #[test]
    fn tensors_behind_the_head_are_not_copied() {
        let answer = Bytes::from([HEAD, &[1, 2]].concat());

        let given = take_apart(&answer, Some(HEAD.len())).unwrap();

        assert_eq!(given[0].about.shape, [2]);
        assert_eq!(given[0].data.as_ptr(), answer[HEAD.len()..].as_ptr());
    }

    proptest! {
        #[test]
        fn no_answer_whatever_upsets_the_reader(
            cut in 0_usize..100,
            n_head in prop::option::of(0_usize..200),
            at in 0_usize..90,
            letter in any::<u8>(),
        ) {
            let mut answer = [HEAD, &[1, 2]].concat();
            answer[at] = letter;
            answer.truncate(cut);
            if let Ok(given) = take_apart(&answer.into(), n_head) {
                prop_assert!(given.iter().all(|given| given.data.len() <= 2));
            }
        }
    }
}

//! Server reflection, `v1` and `v1alpha`: lets tools such as grpcurl call this server without its proto
//! files.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use bytes::Bytes;
use prost::Message;

use crate::body::{Incoming, parsed};
use crate::outgoing::{Gone, Outgoing};
use crate::proto::reflection::{
    Answer, ErrorResponse, FileDescriptorResponse, ListServiceResponse, Question, ServerReflectionRequest,
    ServerReflectionResponse, ServiceResponse,
};
use crate::status::{Code, Status};

/// The files in `proto/`, compiled.
pub(crate) static DESCRIPTORS: &[u8] = include_bytes!("../proto/descriptors.bin");

static CATALOGUE: LazyLock<Catalogue> = LazyLock::new(|| Catalogue::read(DESCRIPTORS));

/// Answers one call: as many questions as the peer asks, in turn.
pub(crate) async fn serve(mut incoming: Incoming, mut outgoing: Outgoing) {
    loop {
        let asked = match incoming.next().await {
            Ok(Some(message)) => parsed::<ServerReflectionRequest>(message),
            Ok(None) => return outgoing.finish(Ok(())),
            Err(status) => Err(status),
        };
        let request = match asked {
            Ok(request) => request,
            Err(status) => return outgoing.finish(Err(status)),
        };
        let answer = CATALOGUE.answer(request.question.as_ref()).unwrap_or_else(|status| {
            Answer::Error(ErrorResponse {
                error_code: status.code as i32,
                error_message: status.message.into_owned(),
            })
        });
        let valid_host = request.host.clone();
        let response =
            ServerReflectionResponse { valid_host, original_request: Some(request), answer: Some(answer) };
        match incoming.while_sending(outgoing.send(&response)).await {
            Ok(Ok(())) => {}
            Ok(Err(Gone)) => return,
            Err(status) => return outgoing.finish(Err(status)),
        }
    }
}

/// Declarations of the files, by name.
#[derive(Default)]
struct Catalogue {
    files: BTreeMap<String, (Bytes, Vec<String>)>,
    symbols: BTreeMap<String, String>,
    services: Vec<String>,
}

impl Catalogue {
    fn read(descriptors: &'static [u8]) -> Self {
        let mut catalogue = Self::default();
        // A test reads the same bytes, so they decode; no error is reported here.
        let set = descriptor::Set::decode(descriptors).unwrap_or_default();
        for bytes in set.file {
            let file = descriptor::File::decode(bytes.clone()).unwrap_or_default();
            let mut symbols = Vec::new();
            for message in &file.messages {
                message.names(&file.package, &mut symbols);
            }
            symbols.extend(file.enums.iter().map(|one| join(&file.package, &one.name)));
            for service in &file.services {
                let name = join(&file.package, &service.name);
                symbols.extend(service.methods.iter().map(|method| join(&name, &method.name)));
                symbols.push(name.clone());
                catalogue.services.push(name);
            }
            catalogue.symbols.extend(symbols.into_iter().map(|symbol| (symbol, file.name.clone())));
            catalogue.files.insert(file.name, (bytes, file.dependencies));
        }
        catalogue
    }

    fn answer(&self, question: Option<&Question>) -> Result<Answer, Status> {
        let no_extensions = || Status::new(Code::NotFound, "this server has no extensions");
        match question {
            None => Err(Status::invalid("the question is missing")),
            Some(Question::FileByFilename(name)) => self.files(name),
            Some(Question::FileContainingSymbol(symbol)) => {
                let unknown = || Status::new(Code::NotFound, "no such symbol");
                self.files(self.symbols.get(symbol).ok_or_else(unknown)?)
            }
            Some(Question::FileContainingExtension(_) | Question::AllExtensionNumbersOfType(_)) => {
                Err(no_extensions())
            }
            Some(Question::ListServices(_)) => {
                let service =
                    self.services.iter().map(|name| ServiceResponse { name: name.clone() }).collect();
                Ok(Answer::Services(ListServiceResponse { service }))
            }
        }
    }

    /// The file, and after it all that it needs.
    fn files(&self, name: &str) -> Result<Answer, Status> {
        let mut seen = BTreeSet::new();
        let mut files = Vec::new();
        let mut todo = vec![name];
        while let Some(name) = todo.pop() {
            if seen.insert(name) {
                let unknown = || Status::new(Code::NotFound, "no such file");
                let (bytes, dependencies) = self.files.get(name).ok_or_else(unknown)?;
                files.push(bytes.clone());
                todo.extend(dependencies.iter().map(String::as_str));
            }
        }
        Ok(Answer::Files(FileDescriptorResponse { file_descriptor_proto: files }))
    }
}

fn join(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

/// The little that is needed of `google.protobuf.FileDescriptorSet`.
mod descriptor {
    use super::join;

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Set {
        #[prost(bytes = "bytes", repeated, tag = "1")]
        pub(super) file: Vec<bytes::Bytes>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct File {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(string, tag = "2")]
        pub(super) package: String,
        #[prost(string, repeated, tag = "3")]
        pub(super) dependencies: Vec<String>,
        #[prost(message, repeated, tag = "4")]
        pub(super) messages: Vec<MessageDescriptor>,
        #[prost(message, repeated, tag = "5")]
        pub(super) enums: Vec<Named>,
        #[prost(message, repeated, tag = "6")]
        pub(super) services: Vec<ServiceDescriptor>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct MessageDescriptor {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(message, repeated, tag = "3")]
        messages: Vec<MessageDescriptor>,
        #[prost(message, repeated, tag = "4")]
        enums: Vec<Named>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct Named {
        #[prost(string, tag = "1")]
        pub(super) name: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub(super) struct ServiceDescriptor {
        #[prost(string, tag = "1")]
        pub(super) name: String,
        #[prost(message, repeated, tag = "2")]
        pub(super) methods: Vec<Named>,
    }

    impl MessageDescriptor {
        /// Appends this message's full name and those of all that it holds.
        pub(super) fn names(&self, scope: &str, names: &mut Vec<String>) {
            let name = join(scope, &self.name);
            for message in &self.messages {
                message.names(&name, names);
            }
            names.extend(self.enums.iter().map(|one| join(&name, &one.name)));
            names.push(name);
        }
    }
}

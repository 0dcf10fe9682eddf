//! The binding of a service's methods: names and hashes on one side, numbers on the other.
//!
//! The caller asks with a call of method [`BIND`], once per service and session. The callee looks up its methods
//! ([`bind`]) and replies with a number for each. The runtime sends both, and turns the reply into a table. Either
//! side may know methods that the other does not: a missing method is an error only when it is called. A method of
//! the same name with another hash is a clash, unless the two differ only in fields with a default and in variants of
//! enums that have an `other` variant: then the method is bound in the tolerant form. A clash is an error of the calls of its method, which names both signatures. It is an
//! error of the binding only where it leaves no method that can be called ([`BindReply::is_useless`]).
//!
//! Invariant: a number is given only to a method whose hash is equal on both sides and none of whose several arguments has the
//! name of another argument there, or whose tolerance endures the other, and any bytes give a request or a reply within its bounds, or the rule that they break.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::fault::Rule;
use crate::limits::{
    DEFAULT_FIELDS_MAX, DEFAULT_FIELDS_PER_REQUEST_MAX, IDENT_BYTES_MAX, METHODS_PER_SERVICE_MAX,
    METHODS_PER_SESSION_MAX, SIGNATURE_BYTES_MAX,
};
use crate::method::{DefaultField, IdentError, MethodHash, Signature, Tolerance, check_ident};
use crate::record::{Fields, push_text};

/// The number of the method that binds the others.
pub const BIND: u16 = 0;

/// The request of a caller: the methods of a service as the caller knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindRequest {
    service: Box<str>,
    methods: Vec<RequestedMethod>,
}

/// A method as the caller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct RequestedMethod {
    name: Box<str>,
    hash: MethodHash,
    text: Box<str>,
    tolerance: Tolerance,
}

impl BindRequest {
    /// Creates a request for methods of one service. The reply has their order. The methods for whose fields with a
    /// default there is no room any more, beside the names of all arguments, are bound only if their signatures are equal.
    pub fn new(service: &str, methods: &[Signature]) -> Result<BindRequest, BindError> {
        check_ident(service).map_err(BindError::Ident)?;
        if methods.len() > METHODS_PER_SERVICE_MAX {
            return Err(BindError::TooManyMethods { methods: methods.len() });
        }
        if let Some(stray) = methods.iter().find(|method| method.service() != service) {
            let (method, of) = (stray.name().into(), stray.service().into());
            return Err(BindError::OtherService { method, of, service: service.into() });
        }
        // Two sides that swap arguments must learn of it, however many fields the other methods have. The stub compiler
        // permits 12 arguments of a method, a quarter of this room for the largest service.
        let named: usize = methods.iter().map(|method| method.tolerance().arguments().len()).sum();
        let mut room = DEFAULT_FIELDS_PER_REQUEST_MAX.saturating_sub(named);
        let methods = methods.iter().map(|method| {
            let tolerance = method.tolerance();
            let arguments = tolerance.arguments();
            let fields = tolerance.fields().len() - arguments.len();
            let left = room.checked_sub(fields);
            room = left.unwrap_or(room);
            RequestedMethod {
                name: method.name().into(),
                hash: method.hash(),
                text: method.text().into(),
                tolerance: match left {
                    Some(_) => tolerance.clone(),
                    None => Tolerance::new(method.hash(), arguments),
                },
            }
        });
        Ok(BindRequest { service: service.into(), methods: methods.collect() })
    }

    /// Returns the name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the methods' names and hashes, in the order of the reply.
    pub fn methods(&self) -> impl ExactSizeIterator<Item = (&str, MethodHash)> {
        self.methods.iter().map(|method| (&*method.name, method.hash))
    }

    /// Encodes the request as a payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_text(&mut out, &self.service);
        out.extend_from_slice(&(self.methods.len() as u16).to_le_bytes());
        for method in &self.methods {
            push_text(&mut out, &method.name);
            out.extend_from_slice(&method.hash.as_u64().to_le_bytes());
            push_text(&mut out, &method.text);
            push_tolerance(&mut out, &method.tolerance);
        }
        out
    }

    /// Decodes the request in a payload.
    pub fn decode(payload: &[u8]) -> Result<BindRequest, Rule> {
        let mut fields = Fields::new(payload);
        let service = ident(&mut fields, "name of the service")?;
        let count = method_count(&mut fields)?;
        // The vector grows as methods are read, since the announced count alone must take no memory.
        let mut methods = Vec::new();
        for _ in 0..count {
            methods.push(RequestedMethod {
                name: ident(&mut fields, "name of a method")?,
                hash: MethodHash::from_u64(fields.u64("hash of a method")?),
                text: fields.text("signature of a method", SIGNATURE_BYTES_MAX)?.into(),
                tolerance: tolerance(&mut fields)?,
            });
        }
        fields.end()?;
        Ok(BindRequest { service, methods })
    }
}

/// The answer about one method of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Both sides have the method, with this number.
    Number(u16),
    /// Both sides have the method, with this number, and differ in fields with a default or in variants.
    Tolerant(u16),
    /// The callee does not have the method.
    Missing,
    /// The callee has the method with another signature.
    Clash {
        /// The callee's signature.
        theirs: Box<str>,
    },
}

/// The reply of a callee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BindReply {
    served: bool,
    methods: Vec<Bound>,
}

impl BindReply {
    /// Returns whether the callee serves the service; if not, every method is missing.
    pub fn is_served(&self) -> bool {
        self.served
    }

    /// Returns the answer about each method, in the order of the request.
    pub fn methods(&self) -> &[Bound] {
        &self.methods
    }

    /// Returns whether no method can be called, because some or all clash.
    pub fn is_useless(&self) -> bool {
        let clashes = |bound: &Bound| matches!(bound, Bound::Clash { .. });
        let is_bound = |bound: &Bound| matches!(bound, Bound::Number(_) | Bound::Tolerant(_));
        self.methods.iter().any(clashes) && !self.methods.iter().any(is_bound)
    }

    /// Returns the clashes with both signatures each. The request must be the one that this peer has answered.
    pub fn clashes(&self, request: &BindRequest, peer: &str) -> impl Iterator<Item = Clash> {
        request.methods.iter().zip(&self.methods).filter_map(move |(asked, bound)| match bound {
            Bound::Clash { theirs } => Some(Clash {
                service: request.service.clone(),
                method: asked.name.clone(),
                peer: peer.into(),
                ours: asked.text.clone(),
                theirs: theirs.clone(),
            }),
            _ => None,
        })
    }

    /// Encodes the reply as a payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![u8::from(self.served)];
        out.extend_from_slice(&(self.methods.len() as u16).to_le_bytes());
        for bound in &self.methods {
            match bound {
                Bound::Number(number) => {
                    out.push(1);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Bound::Tolerant(number) => {
                    out.push(4);
                    out.extend_from_slice(&number.to_le_bytes());
                }
                Bound::Missing => out.push(2),
                Bound::Clash { theirs } => {
                    out.push(3);
                    push_text(&mut out, theirs);
                }
            }
        }
        out
    }

    /// Decodes the reply to `request` in a payload.
    pub fn decode(payload: &[u8], request: &BindRequest) -> Result<BindReply, Rule> {
        let mut fields = Fields::new(payload);
        let field = "whether the service is served";
        let served = match fields.u8(field)? {
            0 => false,
            1 => true,
            _ => return Err(Rule::RecordField { field }),
        };
        if method_count(&mut fields)? != request.methods.len() {
            return Err(Rule::RecordField { field: "number of methods" });
        }
        let mut methods = Vec::new();
        for _ in &request.methods {
            methods.push(bound(&mut fields)?);
        }
        fields.end()?;
        if !served && methods.iter().any(|bound| *bound != Bound::Missing) {
            return Err(Rule::RecordField { field });
        }
        Ok(BindReply { served, methods })
    }
}

/// A method that a callee offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offered<'a> {
    signature: &'a Signature,
    number: u16,
}

impl<'a> Offered<'a> {
    /// Creates the offer of the method with this signature and this number, which is at least 1 and below
    /// [`METHODS_PER_SESSION_MAX`]. The method is also bound where its tolerance endures the caller's.
    pub const fn new(signature: &'a Signature, number: u16) -> Offered<'a> {
        Offered { signature, number }
    }
}

/// Looks up every method of a request among the offered ones.
///
/// ```
/// use upbeat_core::bind::{BindRequest, Bound, Offered, bind};
/// use upbeat_core::method::Signature;
///
/// let add = Signature::new("Counter", "add", "Counter.add(n: u64) -> u64").unwrap();
/// let old = Signature::new("Counter", "reset", "Counter.reset()").unwrap();
/// let request = BindRequest::new("Counter", &[add.clone(), old]).unwrap();
/// let reply = bind(&request, &[Offered::new(&add, 1)]);
/// assert_eq!(reply.methods(), [Bound::Number(1), Bound::Missing]);
/// ```
pub fn bind(request: &BindRequest, offered: &[Offered<'_>]) -> BindReply {
    let service = || offered.iter().filter(|offer| offer.signature.service() == &*request.service);
    let find = |asked: &RequestedMethod| {
        let same_name = || service().filter(|offer| offer.signature.name() == &*asked.name);
        let is_equal = |offer: &&Offered<'_>| {
            let swaps = offer.signature.tolerance().swaps(&asked.tolerance);
            offer.signature.hash() == asked.hash && !swaps
        };
        if let Some(offer) = same_name().find(is_equal) {
            return Bound::Number(offer.number);
        }
        let endures = |offer: &&Offered<'_>| offer.signature.tolerance().endures(&asked.tolerance);
        match same_name().find(endures) {
            Some(offer) => Bound::Tolerant(offer.number),
            None => same_name().next().map_or(Bound::Missing, |offer| Bound::Clash {
                theirs: offer.signature.text().into(),
            }),
        }
    };
    BindReply {
        served: service().next().is_some(),
        methods: request.methods.iter().map(find).collect(),
    }
}

/// A method that both sides have under one name with different signatures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clash {
    service: Box<str>,
    method: Box<str>,
    peer: Box<str>,
    ours: Box<str>,
    theirs: Box<str>,
}

impl Clash {
    /// Returns the name of the service.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Returns the method's name.
    pub fn method(&self) -> &str {
        &self.method
    }
}

impl core::error::Error for Clash {}

impl fmt::Display for Clash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "method `{}` of service `{}` has one signature here and another at {}\n  \
             here:  {}\n  there: {}\nbuild both sides from the same trait, or give the new form a \
             new name",
            self.method,
            self.service,
            self.peer,
            self.ours,
            self.theirs.escape_debug()
        )?;
        if self.ours == self.theirs {
            f.write_str(
                "\nan argument of one side has the name of another argument of the other side",
            )?;
        }
        Ok(())
    }
}

/// The reason why methods cannot be asked for in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BindError {
    /// The name of the service is invalid.
    Ident(IdentError),
    /// There are more methods than a service may have.
    TooManyMethods {
        /// The number of methods.
        methods: usize,
    },
    /// A method belongs to another service.
    OtherService {
        /// The method.
        method: Box<str>,
        /// The service that the method belongs to.
        of: Box<str>,
        /// The requested service.
        service: Box<str>,
    },
}

impl core::error::Error for BindError {}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BindError::Ident(error) => error.fmt(f),
            BindError::TooManyMethods { methods } => write!(
                f,
                "the service has {methods} methods; at most {METHODS_PER_SERVICE_MAX} are allowed: \
                 split it"
            ),
            BindError::OtherService { method, of, service } => {
                write!(f, "method `{method}` belongs to service `{of}` and not to `{service}`")
            }
        }
    }
}

fn bound(fields: &mut Fields<'_>) -> Result<Bound, Rule> {
    let field = "answer about a method";
    match fields.u8(field)? {
        1 => number(fields).map(Bound::Number),
        4 => number(fields).map(Bound::Tolerant),
        2 => Ok(Bound::Missing),
        3 => {
            let theirs = fields.text("signature of a method", SIGNATURE_BYTES_MAX)?.into();
            Ok(Bound::Clash { theirs })
        }
        _ => Err(Rule::RecordField { field }),
    }
}

fn number(fields: &mut Fields<'_>) -> Result<u16, Rule> {
    let field = "number of a method";
    match fields.u16(field)? {
        number if number != BIND && usize::from(number) < METHODS_PER_SESSION_MAX => Ok(number),
        _ => Err(Rule::RecordField { field }),
    }
}

fn push_tolerance(out: &mut Vec<u8>, tolerance: &Tolerance) {
    out.extend_from_slice(&tolerance.base().as_u64().to_le_bytes());
    out.push(tolerance.fields().len() as u8);
    for DefaultField { place, content } in tolerance.fields() {
        out.extend_from_slice(&place.as_u64().to_le_bytes());
        out.extend_from_slice(&content.as_u64().to_le_bytes());
    }
}

fn tolerance(fields: &mut Fields<'_>) -> Result<Tolerance, Rule> {
    let base = MethodHash::from_u64(fields.u64("base hash of a method")?);
    let field = "number of default fields";
    let count = usize::from(fields.u8(field)?);
    if count > DEFAULT_FIELDS_MAX {
        return Err(Rule::RecordField { field });
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let place = MethodHash::from_u64(fields.u64("place of a default field")?);
        let content = MethodHash::from_u64(fields.u64("hash of a default field")?);
        all.push(DefaultField { place, content });
    }
    if !all.is_sorted_by_key(|field| field.place) {
        return Err(Rule::RecordField { field: "order of default fields" });
    }
    Ok(Tolerance::new(base, all))
}

fn ident(fields: &mut Fields<'_>, field: &'static str) -> Result<Box<str>, Rule> {
    let ident = fields.text(field, IDENT_BYTES_MAX)?;
    match check_ident(ident) {
        Ok(()) => Ok(ident.into()),
        Err(_) => Err(Rule::RecordField { field }),
    }
}

fn method_count(fields: &mut Fields<'_>) -> Result<usize, Rule> {
    let field = "number of methods";
    match usize::from(fields.u16(field)?) {
        count if count <= METHODS_PER_SERVICE_MAX => Ok(count),
        _ => Err(Rule::RecordField { field }),
    }
}

#[cfg(test)]
mod tests;

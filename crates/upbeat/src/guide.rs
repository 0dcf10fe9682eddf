//! The programs of the guide, which are compiled as documentation tests.

macro_rules! pages {
    ($($name:ident $page:literal,)*) => {$(
        #[doc = include_str!(concat!("../../../docs/guide/", $page))]
        struct $name;
    )*};
}

pages! {
    Backpressure "backpressure.md",
    Callbacks "callbacks.md",
    Connecting "connecting.md",
    Context "context.md",
    Cores "cores.md",
    Deploying "deploying.md",
    FirstProgram "first-program.md",
    FromTonicTarpc "from-tonic-tarpc.md",
    Layers "layers.md",
    Observing "observing.md",
    Reading "reading.md",
    Streams "streams.md",
    Testing "testing.md",
    Types "types.md",
}

#[cfg(feature = "tokio")]
pages! {
    Tokio "tokio.md",
}

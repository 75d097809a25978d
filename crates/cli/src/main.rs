//! The binary `kubectl-mcu`. It passes on its arguments and sets the exit code; everything else is in the library.

use std::process::ExitCode;

use kubectl_mcu::Exit;

fn main() -> ExitCode {
    // rustls needs a default provider because several are linked. An error only means that one is installed already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let exit = match runtime {
        Ok(runtime) => runtime.block_on(kubectl_mcu::run_args(std::env::args_os())),
        Err(error) => {
            eprintln!("error: {}", api::text::visible(&error.to_string()));
            Exit::Error
        }
    };
    ExitCode::from(exit.code())
}

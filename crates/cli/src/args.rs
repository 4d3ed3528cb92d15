//! The command line.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};
use paceline_server::trial;

use crate::commands::{
    bench::BenchArgs, dead::DeadArgs, feed::FeedArgs, speak::SpeakArgs, stream::StreamArgs,
    top::TopArgs, transcribe::TranscribeArgs,
};

/// Serves models to streams: audio sockets, camera feeds and plain requests ride together through
/// the model as batches, and leave in order.
///
/// Without a command, `paceline` serves.
#[derive(Debug, Parser)]
#[command(name = "paceline", version, propagate_version = true, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXIT_CODES: &str = "\
Exit codes: 0 all went well; 1 something failed while running; 2 the command line is wrong;
3 the configuration or a model is refused.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Serve models (the default)
    Serve(ServeArgs),
    /// Check a configuration file, or a model's model.toml, without starting anything
    Check(CheckArgs),
    /// List the models that would be served
    Models(ModelsArgs),
    /// Measure, and print a table
    Bench(BenchArgs),
    /// Stream audio to a server and print what it hears
    Stream(StreamArgs),
    /// Write down what is said in files
    Transcribe(TranscribeArgs),
    /// Show what a server does, live
    Top(TopArgs),
    /// Have a server speak a text
    Speak(SpeakArgs),
    /// Feed frames of simulated cameras into Redis, and check their results
    Feed(Box<FeedArgs>),
    /// List frames of cameras that could not be inferred, and put them back
    Dead(DeadArgs),
    /// Load and warm up the model that standard input names; a server starts this
    #[command(name = trial::COMMAND, hide = true)]
    TryModel,
}

impl Default for Command {
    fn default() -> Self {
        Self::Serve(ServeArgs::default())
    }
}

/// Where the configuration comes from.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Configuration file; without one, the defaults serve the models of ./models
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set one key over file and environment, for example `--set models.echo.batch.max_wait=5ms`
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Folder of models; the same as `--set server.model_repository=DIR`
    #[arg(long, value_name = "DIR")]
    pub(crate) model_repository: Option<PathBuf>,
}

/// Serve models.
///
/// Settings come from the defaults, the file, the environment (`PACELINE__SECTION__KEY`) and the
/// command line, each over the one before.
#[derive(Debug, Clone, Default, ClapArgs)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Address for HTTP; the same as `--set server.listen=ADDRESS`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Address for gRPC; the same as `--set server.grpc_listen=ADDRESS`
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) grpc_listen: Option<String>,
    /// Stop when standard input ends, and so with whoever started this
    #[arg(long, hide = true)]
    pub(crate) stop_with_stdin: bool,
    /// Print the merged configuration and exit
    #[arg(long)]
    pub(crate) print_config: bool,
}

/// Check a configuration file.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct CheckArgs {
    /// The file: a configuration, or a model.toml
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
}

/// List models.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct ModelsArgs {
    #[command(flatten)]
    pub(crate) config: ConfigArgs,
    /// Print JSON instead of a table
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_makes_sense() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_newcomer_can_read_the_help() {
        insta::assert_snapshot!(Args::command().term_width(100).render_long_help());
    }
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * cmd_verify.c - ptmill verify: is what was decoded what was executed, and do the engines agree?
 */
#include "run.h"

enum { KEY_TRUTH = CLI_KEY_OWN, KEY_ENGINES };

struct verify {
	struct cli_opts opts;
	const char *truth;
	bool engines;
};

static const struct argp_option options[] = {
	{"truth", KEY_TRUTH, "FILE", 0,
	 "Compare with FILE, as a recorder wrote it (default: what the capture names)", 0},
	{"engines", KEY_ENGINES, NULL, 0,
	 "Compare the engines with each other (default where nothing tells what was executed)", 0},
	{0}};

static error_t check(const struct argp_state *state, const struct verify *cmd)
{
	if (cmd->truth != NULL && cmd->opts.ninputs > 1)
		return cli_usage(state, "--truth is of one stream: name one INPUT");
	if (cmd->truth != NULL && cmd->engines)
		return cli_usage(state, "--truth and --engines contradict each other");
	if (cmd->engines && cmd->opts.has_engine)
		return cli_usage(state, "--engines compares all: --engine makes no sense with it");
	if (cmd->engines && cmd->opts.resync_ip)
		return cli_usage(state, "--engines goes on at PSBs: --resync=ip contradicts it");
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state, void *input)
{
	struct verify *cmd = input;

	switch (key) {
	case KEY_TRUTH:
		cmd->truth = arg;
		return 0;
	case KEY_ENGINES:
		cmd->engines = true;
		return 0;
	case ARGP_KEY_END:
		return check(state, cmd);
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Are there streams of which nobody knows what was executed, and no others? */
static bool has_no_truth(const struct ptm_session *session)
{
	for (size_t i = 0; i < ptm_session_streams(session); i++)
		if (ptm_session_stream(session, i).truth != NULL)
			return false;
	return true;
}

static struct ptm_sink *make_sink(void *arg, const struct ptm_session *session,
				  struct ptm_error *err)
{
	const struct verify *cmd = arg;

	if (cmd->engines || (cmd->truth == NULL && !cmd->opts.has_engine && !cmd->opts.resync_ip &&
			     has_no_truth(session)))
		return ptm_sink_compare_create(cmd->opts.config.cache_limit, cmd->opts.output, err);
	return ptm_sink_verify_create(session, cmd->truth, cmd->opts.output, err);
}

static int count_wrong(void *arg, struct ptm_sink *sink, const struct ptm_run_stats *stats)
{
	(void)arg;
	(void)stats;
	return ptm_sink_verify_wrong(sink) > 0 ? CLI_EXIT_DIFFERS : 0;
}

static const struct cli_decoding decoding = {
	.options = options,
	.parse = parse,
	.doc = "Decode traces and compare them with what was executed: the number of "
	       "instructions and their digest, at the end and at every place that the "
	       "recorder noted.  Where nothing tells what was executed, or with --engines, compare "
	       "the engines with each other.\v"
	       "Exits with 1 if a stream differs; the report says where.\n\n" CLI_INPUT_HELP,
	.job = {.make_sink = make_sink, .after = count_wrong, .needs_images = true},
};

static int run(int argc, char **argv)
{
	struct verify cmd = {.opts = {.ninputs = 0}};

	return cli_run_decoding(&decoding, argc, argv, &cmd.opts, &cmd);
}

const struct cli_command cli_verify = {
	"verify", "compare with what was executed, or engine with engine", run};

// kolo draw: shows what an algorithm does, step by step.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "base/whole_file.hpp"
#include "catalog/request.hpp"
#include "commands.hpp"
#include "draw/formats.hpp"
#include "draw/picture.hpp"
#include "options.hpp"
#include "text/refuse.hpp"

namespace kolo::cli {
namespace {

constexpr const char* kDrawFooter = R"(Examples:
  kolo draw ring --ranks 8                 ring-8.html: a page to step through
  kolo draw ring --ranks 4 --format text   on the terminal
  kolo draw ring:order=0-2-1-3 --ranks 4 -o sheet.svg   all steps side by side
  kolo draw binomial --collective broadcast --ranks 8 --root 2
  kolo draw ring --hosts 3,2,3             eight ranks on three hosts
  kolo draw --all -o site/                 every algorithm: open site/index.html

Drawn from the schedule that runs. At most 64 ranks. Pages need no network.)";

struct DrawArguments {
  std::string algorithm, collective = "all_reduce", ranks, hosts, format, output;
  int root = 0;
  bool all = false;
};

/// "ring-8.html", without letters that are special to a shell or a file system.
std::string default_file(const algorithms::ConfiguredAlgorithm& configured, int size,
                         const std::string& format) {
  std::string name;
  if (configured.algorithm->collective != schedule::Collective::all_reduce) {
    name = std::string(schedule::name_of(configured.algorithm->collective)) + "-";
  }
  for (const char c : configured.name()) {
    name += c == ':' || c == '=' || c == ',' ? '-' : c;
  }
  return fmt::format("{}-{}.{}", name, size, format);
}

/// The format by a file's suffix; a page without one.
std::string format_of(const std::string& file) {
  const std::string suffix = std::filesystem::path(file).extension().string();
  if (suffix == ".svg") return "svg";
  if (suffix == ".txt") return "text";
  if (suffix.empty() || suffix == ".html") return "html";
  refuse(
      "-o {}: kolo draw writes .html, .svg and .txt, not {}; --format chooses one "
      "of them for a file of any name",
      file, suffix);
}

/// The error about another collective's algorithm ends with the options that would work.
algorithms::ConfiguredAlgorithm parse_algorithm(schedule::Collective collective, const std::string& text) {
  const auto configured = algorithms::parse_algorithm(collective, text);
  if (configured.ok()) return configured.value();
  const std::string name = text.substr(0, text.find(':'));
  const auto owners = algorithms::collectives_with(name);
  const bool is_elsewhere = algorithms::find_algorithm(collective, name) == nullptr && !owners.empty();
  refuse("{}",
         configured.status().message() +
             (is_elsewhere ? fmt::format(": --collective {}", fmt::join(owners, ", --collective ")) : ""));
}

void draw_all(const DrawArguments& arguments) {
  constexpr const char* kFolder = "kolo-algorithms";
  const std::filesystem::path folder = arguments.output.empty() ? kFolder : arguments.output;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    Status::from_errno("cannot make the folder " + folder.string(), error.value()).throw_if_error();
  }
  for (const draw::File& file :
       draw::gallery_of(parse_ranks(arguments.ranks, {}, draw::kMostRanks, {4, 6, 8, 16}))) {
    write_whole_file((folder / file.name).string(), file.text).throw_if_error();
  }
  fmt::print("{}\n", (folder / "index.html").string());
}

void draw_one(const DrawArguments& arguments) {
  if (arguments.algorithm.empty()) refuse("draw: name an algorithm, or --all");
  const std::vector<int> hosts = parse_ranks_per_host(arguments.hosts);
  const std::vector<int> sizes = parse_ranks(arguments.ranks, hosts, draw::kMostRanks, {8});
  if (sizes.size() != 1) refuse("--ranks: a picture is of one number of ranks");
  const int size = sizes[0];
  const schedule::Collective collective =
      algorithms::require_collective(arguments.collective).value_or_throw();
  const algorithms::ConfiguredAlgorithm configured = parse_algorithm(collective, arguments.algorithm);
  const int root = checked_root(arguments.root, collective, size);
  const algorithms::ScheduleSpec spec{collective, 0, size, root, configured.arguments, hosts};
  const draw::Picture picture = draw::make_picture(configured, spec).value_or_throw();
  std::string text, output = arguments.output;
  const std::string format = arguments.format.empty() ? format_of(output) : arguments.format;
  if (format == "text") {
    text = draw::to_text(picture);
    if (output.empty()) output = "-";
  } else {
    text = format == "svg" ? draw::to_svg(picture).value_or_throw() : draw::to_html(picture);
    if (output.empty()) output = default_file(configured, size, format);
  }
  if (output == "-") return fmt::print("{}", text);
  write_whole_file(output, text).throw_if_error();
  if (arguments.output.empty()) fmt::print("{}\n", output);
}

}  // namespace

void add_draw(CLI::App& app) {
  CLI::App* draw = app.add_subcommand("draw", "Show an algorithm step by step: a web page, a sheet, or text");
  const auto arguments = std::make_shared<DrawArguments>();
  draw->footer(kDrawFooter);
  draw->add_option("ALGORITHM", arguments->algorithm, "NAME[:PARAMETER=VALUE]...");
  add_value(*draw, "-n,--ranks", arguments->ranks, "N",
            "How many ranks (default: 8; with --all 4, 6, 8 and 16, or FROM:TO)");
  add_value(*draw, "--collective", arguments->collective, "COLLECTIVE",
            "all_reduce, broadcast, reduce_scatter, ...");
  add_value(*draw, "--hosts", arguments->hosts, "LIST", "Ranks on each host, in order, as in 3,2,3");
  add_value(*draw, "--root", arguments->root, "RANK", "The root, of collectives that have one")
      ->capture_default_str();
  add_value(*draw, "--format", arguments->format, "NAME",
            "What to write; without it the output's name decides: .html, .svg or .txt, else html")
      ->check(CLI::IsMember({"html", "svg", "text"}));
  add_value(*draw, "-o,--output", arguments->output, "FILE",
            "A file, or - for standard output (default: such as ring-8.html, and - for text); with --all a "
            "folder (default: kolo-algorithms)");
  CLI::Option* all = draw->add_flag(
      "--all", arguments->all, "A folder of pages: all algorithms, a front page, and one that compares two");
  for (const char* other : {"ALGORITHM", "--collective", "--hosts", "--root", "--format"}) {
    all->excludes(draw->get_option(other));
  }
  draw->callback([arguments] { arguments->all ? draw_all(*arguments) : draw_one(*arguments); });
}

}  // namespace kolo::cli

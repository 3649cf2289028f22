// kolo docs: writes docs/algorithms.md and its pictures from the schedules. Hidden: for scripts/update-docs.
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/whole_file.hpp"
#include "catalog/example.hpp"
#include "catalog/proof.hpp"
#include "commands.hpp"
#include "draw/formats.hpp"
#include "draw/picture.hpp"
#include "draw/words.hpp"

namespace kolo::cli {
namespace {

constexpr int kRanks = 8;
/// A sheet of more panels than this is drawn with fewer ranks.
constexpr std::size_t kMostSteps = 8;
constexpr const char* kImages = "images/algorithms";

constexpr const char* kHead =
    R"(<!-- Written by scripts/update-docs from the schedules: edit the algorithms, not this file. -->
# Algorithms

Every algorithm that kolo has, with its cost. N ranks; n: the bytes of the whole data, over all parts where
each rank has one. A step is what all ranks do at once: each sends at most one message and receives at most
one (the one-port model). The closed form is what the algorithm's source states; a test holds the schedules
to it for 1 to 64 ranks. *Counted* is what the schedules of 8 ranks add up to, as multiples of n: what the
busiest rank sends and receives, and what the busiest link, from one rank to one other, carries.

`kolo check` proves them. `kolo draw NAME --collective COLLECTIVE` shows one step by step, and
`kolo draw --all -o site/` all of them: open `site/index.html`, which also compares two side by side.
`KOLO_ALGORITHM=NAME[:PARAMETER=VALUE]` chooses one.
)";

std::string cell(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '|' ? std::string("\\|") : std::string(1, c);
  return result;
}

std::string share_of_n(std::uint64_t chunks, std::uint64_t of) {
  return of == 0 ? "0" : fmt::format("{:.4g} n", static_cast<double>(chunks) / static_cast<double>(of));
}

std::string table_row(const algorithms::Algorithm& algorithm) {
  const algorithms::ScheduleSpec spec = example_of(algorithm, kRanks);
  const Proof proof = prove({&algorithm, {}}, spec, {});
  std::string counted = "not served | | | ";
  if (proof.proved()) {
    counted = fmt::format("{} | {} | {} | {}", proof.totals.steps,
                          share_of_n(proof.totals.max_sent, proof.elements),
                          share_of_n(proof.totals.max_received, proof.elements),
                          share_of_n(proof.totals.max_link, proof.elements));
  }
  const algorithms::ClosedForm& form = algorithm.closed_form;
  const std::string on_hosts = spec.hosts.empty() ? "" : " (counted on hosts of 3, 2 and 3 ranks)";
  return fmt::format("| `{}` | {} | {} | {} | {}{} |\n", algorithm.name, cell(stated_text(form, form.steps)),
                     cell(stated_text(form, form.sent)), counted, cell(algorithm.use), on_hosts);
}

/// The sheet of 8 ranks, or of fewer ranks if that has too many steps; empty if no sheet can hold the steps.
std::string sheet(const algorithms::Algorithm& algorithm) {
  std::string smallest;
  for (const int ranks : {kRanks, 6, 4}) {
    const auto picture = draw::make_picture({&algorithm, {}}, example_of(algorithm, ranks));
    if (!picture.ok()) continue;
    const auto svg = draw::to_svg(picture.value());
    if (!svg.ok()) continue;
    smallest = svg.value();
    if (picture.value().frames.steps() <= kMostSteps) break;
  }
  return smallest;
}

std::string section(const algorithms::Algorithm& algorithm) {
  std::string text =
      fmt::format("\n### {}: {}\n\n{}\n\nSource: {}\n", schedule::name_of(algorithm.collective),
                  algorithm.name, draw::sentence(algorithm.purpose), draw::sentence(algorithm.source));
  std::string notes;
  if (algorithm.rank_ordered)
    notes += " Combines in rank order, so it serves reductions that are not commutative.";
  if (algorithm.in_shared_memory) {
    notes +=
        " Ranks that share a host's memory run it there without messages, with the same result bit for bit "
        "([performance](performance.md)); the counts here are those of its schedule, over links.";
  }
  if (algorithm.out_of_place_only) notes += " Input and output must be apart.";
  if (algorithm.even_parts_only) notes += " All parts must be equally long.";
  if (!notes.empty()) text += fmt::format("\n{}\n", notes.substr(1));
  if (!algorithm.parameters.empty()) text += "\n";
  for (const algorithms::Parameter& parameter : algorithm.parameters) {
    text += fmt::format("- `{}`: {}\n", parameter.name, parameter.purpose);
  }
  return text;
}

void write_docs(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder / kImages);
  std::string page = kHead;
  std::string sections;
  const algorithms::Algorithm* last = nullptr;
  for (const algorithms::Algorithm& algorithm : algorithms::algorithms()) {
    if (last == nullptr || last->collective != algorithm.collective) {
      page += sections;
      sections.clear();
      page += fmt::format(
          "\n## {}\n\n"
          "| algorithm | steps | the busiest rank sends | counted steps | sends | receives | link | use |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- |\n",
          schedule::name_of(algorithm.collective));
    }
    page += table_row(algorithm);
    sections += section(algorithm);
    if (algorithm.collective == schedule::Collective::all_reduce) {
      if (const std::string drawing = sheet(algorithm); !drawing.empty()) {
        const std::string file = fmt::format("{}/{}.svg", kImages, algorithm.name);
        write_whole_file((folder / file).string(), drawing).throw_if_error();
        sections += fmt::format("\n![{} step by step]({})\n", algorithm.name, file);
      }
    }
    last = &algorithm;
  }
  write_whole_file((folder / "algorithms.md").string(), page + sections).throw_if_error();
}

}  // namespace

void add_docs(CLI::App& app) {
  CLI::App* docs = app.add_subcommand("docs", "Write algorithms.md and its pictures")->group("");
  const auto folder = std::make_shared<std::string>();
  docs->add_option("folder", *folder, "Where to")->required();
  docs->callback([folder] { write_docs(*folder); });
}

}  // namespace kolo::cli

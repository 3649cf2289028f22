#include "draw/formats.hpp"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "draw/words.hpp"

namespace kolo::draw {
namespace {

using nlohmann::json;

std::string explanation(const Picture& picture) {
  const std::string tap = " Tap a rank to read what it holds.";
  if (picture.collective() == schedule::Collective::barrier) {
    return "Each card is a rank; a slot is filled for every rank that it knows to have come." + tap;
  }
  if (picture.slot_per_rank) {
    const std::string row = picture.frames.parts > 1 ? "; each row is a chunk of the data," : ",";
    return "Each card is a rank" + row +
           " with a slot for every rank whose contribution is in it. A full row is the result." + tap;
  }
  if (picture.colour_per_part)
    return "Each card is a rank; each cell is a chunk, coloured once it is there." + tap;
  return "Each card is a rank; each cell is a chunk, coloured by the rank that it comes from once it is "
         "there." +
         tap;
}

/// [rank, part, done, sets] of each cell that has changed.
json changes(const Frame& frame, const Frame* before) {
  json list = json::array();
  for (std::size_t rank = 0; rank < frame.cells.size(); ++rank) {
    for (std::size_t part = 0; part < frame.cells[rank].size(); ++part) {
      const Cell& cell = frame.cells[rank][part];
      if (before != nullptr && before->cells[rank][part] == cell) continue;
      list.push_back({rank, part, cell.done ? 1 : 0, cell.sets});
    }
  }
  return list;
}

/// [from, to, reduces, [part, set, part, set...]] each.
json messages(const Frame& frame) {
  json list = json::array();
  for (const Message& message : frame.messages) {
    json values = json::array();
    for (const Value& value : message.values) {
      values.push_back(value.part);
      values.push_back(value.set);
    }
    list.push_back({message.from, message.to, message.reduces ? 1 : 0, std::move(values)});
  }
  return list;
}

json steps(const Picture& picture) {
  json list = json::array();
  const Frame* before = nullptr;
  for (const Frame& frame : picture.frames.frames) {
    list.push_back({{"words", step_in_words(picture, list.size())},
                    {"messages", messages(frame)},
                    {"changes", changes(frame, before)},
                    {"moved", {frame.moved.sent, frame.moved.received, frame.moved.link}}});
    before = &frame;
  }
  return list;
}

json data_of(const Picture& picture) {
  const algorithms::Algorithm& algorithm = *picture.configured.algorithm;
  json places = json::array();
  for (const Point& place : picture.layout.places) places.push_back({place.x, place.y});
  json boxes = json::array();
  for (const Box& box : picture.layout.boxes) {
    boxes.push_back({box.low.x, box.low.y, box.high.x, box.high.y, box.host});
  }
  json links = json::array();
  for (const auto& [one, other] : picture.layout.links) links.push_back({one, other});
  json names = json::array();
  for (const auto& set : picture.frames.sets) names.push_back(ranks_in_words(set));
  json about = json::array({{"When to use it", algorithm.use}, {"Source", algorithm.source}});
  for (const algorithms::Parameter& parameter : algorithm.parameters) {
    about.push_back({"Parameter " + std::string(parameter.name), parameter.purpose});
  }
  return {{"ranks", picture.spec.size},
          {"parts", picture.frames.parts},
          {"root", picture.root()},
          {"barrier", picture.collective() == schedule::Collective::barrier},
          {"summing", schedule::is_reducing(picture.collective())},
          {"slotPerRank", picture.slot_per_rank},
          {"colourPerPart", picture.colour_per_part},
          {"colours", picture.colours},
          {"layout", picture.layout.name},
          {"places", places},
          {"boxes", boxes},
          {"links", links},
          {"purpose", sentence(algorithm.purpose)},
          {"explain", explanation(picture)},
          {"about", about},
          {"atMost", algorithm.closed_form.at_most},
          {"stepsForm", algorithm.closed_form.steps},
          {"sentForm", algorithm.closed_form.sent},
          {"stated", {picture.stated.steps, picture.stated.sent}},
          {"least",
           {{"steps", picture.least.steps},
            {"through", picture.least.through_of_whole},
            {"throughForm", picture.least.through}}},
          {"sets", picture.frames.sets},
          {"names", names},
          {"steps", steps(picture)}};
}

void replace_all(std::string& text, std::string_view what, std::string_view with) {
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + with.size())) {
    text.replace(at, what.size(), with);
  }
}

}  // namespace

std::string to_html(const Picture& picture) {
  std::string data = data_of(picture).dump();
  replace_all(data, "<", "\\u003c");  // so that no text can end the script element
  std::string title = picture.title();
  replace_all(title, "&", "&amp;");
  replace_all(title, "<", "&lt;");
  std::string page(kPageHtml);
  replace_all(page, "@TITLE@", title);
  replace_all(page, "@STYLE@", kPageCss);
  replace_all(page, "@SCRIPT@", kPageJs);
  replace_all(page, "@DATA@", data);
  return page;
}

}  // namespace kolo::draw

#include "tokenlog/sqlite/item_rows.h"

#include <algorithm>
#include <optional>
#include <string>

#include "tokenlog/checks.h"
#include "tokenlog/sqlite/turn_rows.h"

namespace tenuto {
namespace {

// A turn's place, as the index turns_by_line has it.
struct Place {
  uint64_t line = 0;
  TurnId id;
  TurnId parent;
  int64_t row = 0;
};

// The places of the session from line number `range.first` up to the first number at or past the
// range's end that only one turn has, or else to `head_line`. The one turn is on the line of the
// head, which has a turn of every number.
Result<std::vector<Place>> SelectPlaces(Database& database, int64_t session, LineRange range,
                                        uint64_t head_line) {
  TENUTO_ASSIGN(Statement list,
                database.Use("SELECT line_turns, id, parent, row FROM turns WHERE session = ? AND "
                             "line_turns BETWEEN ? AND ? ORDER BY line_turns"));
  list.Bind(session).Bind(static_cast<int64_t>(range.first)).Bind(static_cast<int64_t>(head_line));
  std::vector<Place> places;
  size_t of_one_line = 0;  // the last ones of `places`
  for (;;) {
    TENUTO_ASSIGN(const bool row, list.Step());
    if (!row) return places;
    Place place{.line = static_cast<uint64_t>(list.Int(0)),
                .id = {std::string(list.Text(1))},
                .parent = {std::string(list.Text(2))},
                .row = list.Int(3)};
    const bool next_line = places.empty() || places.back().line != place.line;
    if (next_line && of_one_line == 1 && places.back().line + 1 >= range.end) return places;
    of_one_line = next_line ? 1 : of_one_line + 1;
    places.push_back(std::move(place));
  }
}

// Of `places`, by line number, those on the line that ends with `last`; back from there to number
// `first`.
Result<std::vector<Place>> FollowParents(std::vector<Place> places, TurnId last, uint64_t first) {
  std::vector<Place> line;
  auto end = places.end();
  while (end != places.begin()) {
    const uint64_t number = std::prev(end)->line;
    auto begin = end;
    while (begin != places.begin() && std::prev(begin)->line == number)
      --begin;
    const auto own = std::find_if(begin, end, [&](const Place& p) { return p.id == last; });
    // A missing number, a parent of another number, a root in the middle.
    if (own == end || (!line.empty() && line.back().line != number + 1) ||
        own->parent.empty() != (number == 1))
      return BrokenLine(last);
    last = own->parent;
    line.push_back(std::move(*own));
    end = begin;
  }
  if (line.empty() || line.back().line != first) return BrokenLine(last);
  return line;
}

Result<ItemsRow> ReadRow(Statement& read, const Place& place) {
  read.Reset();
  read.Bind(place.row);
  TENUTO_ASSIGN(const bool found, read.Step());
  if (!found) return BrokenLine(place.id);
  return ItemsRow{.line = place.line,
                  .id = place.id,
                  .items_json = std::string(read.Text(3)),
                  .recall_json = std::string(read.Text(2)),
                  .created_unix_ms = read.Int(0),
                  .deleted = !read.IsNull(1)};
}

}  // namespace

Result<std::vector<ItemsRow>> SelectItems(Database& database, const SessionRow& session,
                                          const TurnId& head, const ItemsWanted& wanted) {
  if (head.empty()) return std::vector<ItemsRow>();
  TENUTO_ASSIGN(const std::optional<LineEnd> end, SelectLineEnd(database, session.id, head));
  const bool is_head = head == session.head;
  if (!end) return is_head ? BrokenLine(head) : NoSuchTurn("id " + head.value);
  if (is_head && end->turns != session.turns) return BrokenLine(head);
  const LineRange range = ItemsRange(wanted.first_line, wanted.limit, end->turns);
  if (range.first == range.end) return std::vector<ItemsRow>();

  TENUTO_ASSIGN(std::vector<Place> places, SelectPlaces(database, session.id, range, end->turns));
  if (places.empty()) return BrokenLine(head);
  // Up to the head itself only where every number on the way is shared by branches.
  const bool to_head = places.back().line == end->turns;
  const TurnId last = to_head ? head : places.back().id;
  TENUTO_ASSIGN(const std::vector<Place> line, FollowParents(std::move(places), last, range.first));
  if (line.front().line + 1 < range.end) return BrokenLine(head);

  TENUTO_ASSIGN(Statement read,
                database.Use("SELECT created_ms, tombstone, recall_json, items_json FROM items "
                             "WHERE turn = ?"));
  std::vector<ItemsRow> items;
  items.reserve(range.end - range.first);
  for (auto place = line.rbegin(); place != line.rend() && place->line < range.end; ++place) {
    TENUTO_ASSIGN(ItemsRow row, ReadRow(read, *place));
    items.push_back(std::move(row));
  }
  return items;
}

}  // namespace tenuto

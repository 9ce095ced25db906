"""Taking a line of an offer: of the one that was seen, and told in words afterwards."""

from __future__ import annotations

from contextlib import nullcontext

from harness.client.cli.asking import EARLIEST, priced
from harness.client.cli.common import draft_kept
from harness.client.cli.interrupts import submit_awaited
from harness.client.cli.output import notes, number, standing, when
from harness.client.client import Client, Json
from harness.client.errors import ApiError, BadInput
from harness.client.shown import ShownOffer, ShownOffers
from harness.client.transport import segment
from worker.words import energy_unit

RECOMMENDED = "recommended"
_DIGITS_MAX = 9
SUBMITTING = "the same command with --submit"


def check(take: str, *, is_old: bool, asks_anew: bool) -> None:
    """`asks_anew`: by a wish or a probe; `is_old`: of an offer that exists. Raises `BadInput`."""
    if take not in ("", RECOMMENDED) and not (take.isdecimal() and len(take) <= _DIGITS_MAX):
        raise BadInput(f"{take!r} is not a line of the offer.", hint="Give its number in the table, or `recommended`.")
    if asks_anew and (is_old or take.isdecimal()):
        what = "--offer names an offer that exists" if is_old else "A number is of the table that was shown last"
        raise BadInput(
            f"{what}; --deadline, --device, --device-model, --count, --mode and --probe make another one.",
            hint="Ask for it first, look at its table, then take a line by its number alone.",
        )


def named(client: Client, job: str, offer: str) -> Json:
    """The offer of this id, of the job. Raises `BadInput`."""
    found: Json = client.get(f"/offers/{segment(offer)}")
    if found["job"] != job:
        raise BadInput(f"Offer {offer} is not of the job {job}.", hint=f"`dlh jobs offer {job}` makes one.")
    return found


def shown_before(client: Client, job: str, offer: str) -> Json:
    """The offer of a job of which this machine's `dlh` showed a table last, or the named one: `id` and `made_at`.

    What it is now is not asked for: the numbers are those of that table. Raises `BadInput`.
    """
    shown = ShownOffers().last(url=client.transport.url, job=job, offer=offer)
    if shown is None:
        which = f"Offer {offer} of this job has not been shown" if offer else "No offer of this job has been shown"
        again = f"dlh jobs offer {job}{f' --offer {offer}' if offer else ''}"
        raise BadInput(f"{which} by `dlh` here.", hint=f"`{again}` shows it, with the numbers of its lines.")
    return {"id": shown.id, "made_at": shown.made_at}


def remember(client: Client, found: Json) -> None:
    """Keep that the table of an offer is shown now: its numbers are of it as it is priced."""
    if not found["job"] or not found["made_at"]:
        return
    shown = ShownOffer(url=client.transport.url, job=found["job"], id=found["id"], made_at=found["made_at"])
    try:
        ShownOffers().write(shown)
    except OSError as error:
        notes().print(f"Lines cannot be taken by number: what is shown cannot be kept ({error}).", markup=False)


def accept(
    client: Client, job: str, found: Json, take: str, *, submit: bool, promise: bool, queued_by: str = SUBMITTING
) -> Json:
    """Take a line of the job's offer, say which one it was, and return the offer as it is then. Raises `ApiError`.

    `queued_by`: what queues a draft that stays one.
    """
    place = f"/offers/{segment(found['id'])}"
    line = int(take) if take.isdecimal() else None
    wish = {"line": line, "made_at": found["made_at"], "submit": submit, "promise": promise}
    try:
        changed = client.send("POST", f"{place}/accept", wish)
    except ApiError as error:
        fresh = error.details.get("offer") if isinstance(error.details, dict) else None
        if error.code == "offer_stale" and fresh:
            look = f"Look at it with `dlh jobs offer {job} --offer {fresh}`, then choose."
            error.hint = f"Nothing was taken. {error.hint if error.field == 'deadline' else look}"
        raise
    taken: Json = client.get(place)
    way = next((way for way in taken["lines"] if _is(way, taken["accepted"] or {})), None)
    stands = _state_words(changed, "" if submit else queued_by)
    said = f"{_words(way)}; {stands}" if way else stands
    for words in (f"Taken: {said}", *changed.get("left_out", ())):
        notes().print(words, markup=False, soft_wrap=True)
    return taken


def take_earliest(client: Client, draft: str, *, submit: bool, promise: bool) -> Json:
    """Give a draft the earliest finish that can be promised as its deadline, and the devices that are recommended for
    it; return the job. Raises `ClientError` that names the draft."""
    with draft_kept(draft):
        found = priced(client, f"/jobs/{segment(draft)}/offers", {"earliest": True}, deadline=EARLIEST)
        if found["state"] == "failed" or (promise and found["recommended"] is None):
            problem = found["problem"] or {}
            hint = str(problem.get("hint") or " ".join(found["changes"]))
            raise BadInput(str(problem.get("message") or found["text"]), hint=hint, field="deadline")
        by = f"`dlh jobs offer {draft} --take {RECOMMENDED} --submit`"
        with submit_awaited(client, draft) if submit else nullcontext():
            accept(client, draft, found, "", submit=submit, promise=promise, queued_by=by)
            return client.job(draft)


def _state_words(job: Json, queued_by: str) -> str:
    """How the job stands now, and what it takes to queue a draft; empty: it was submitted, and is tested before."""
    if job["state"] == "draft" and not queued_by:
        return f"the job {job['name']} is queued by itself once the test of its learning rate is over."
    if job["state"] == "draft":
        return f"the job {job['name']} stays a draft until {queued_by} queues it."
    return f"the job {job['name']} is {standing(job).rstrip('.')}."


def _is(line: Json, accepted: Json) -> bool:
    pairs = (("device", "kind"), ("device_model", "model_name"), ("count", "count"), ("mode", "mode"))
    return line["batch_split"] == accepted.get("batch_split") and all(
        line[name] == accepted.get(other) for name, other in pairs
    )


def _words(line: Json) -> str:
    done = f"done by {when(line['finish_high'])}" if line["finish_high"] else "done nobody knows when"
    return f"line {line['place']}, {line['words']}, {done}, {_energy(line)}"


def _energy(line: Json) -> str:
    return f"{energy_words(line['energy_j'], line['energy_j']['high'])}, {line['energy_basis']}"


def energy_words(found: Json, most_j: float) -> str:
    """An estimate in the unit of the largest figure of its table, so that ways can be compared by eye; an end of which
    little would be left in its own."""
    size_j, unit = energy_unit(found["mid"], most_j)
    ends = ((energy_unit(found[name], most_j), found[name]) for name in ("low", "high"))
    low, high = (f"{number(end / of_j, 3)}{f' {name}' if name != unit else ''}" for (of_j, name), end in ends)
    return f"{number(found['mid'] / size_j, 3)} {unit} ({low} to {high})"

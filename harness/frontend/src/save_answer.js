// What an answer to a save says: the portal's JSON, or words for what is none.

// A page with this number is the one that says that the form of this tab is not of who is signed in now.
const FORBIDDEN = 403;
const KEPT = "Your text is still here; save again.";

export const UNREACHED = { error: { message: "The portal cannot be reached.", hint: KEPT } };

const REFUSED = {
  error: {
    message: "The portal did not take it from this tab.",
    hint: "Copy your text, load the page again and paste it: you may have signed in anew meanwhile.",
  },
};

export async function saveAnswer(response) {
  try {
    return await response.json();
  } catch {
    // Else it is of a proxy before a portal that starts anew, or of a fault.
    return response.status === FORBIDDEN
      ? REFUSED
      : { error: { message: `The server answered ${response.status}.`, hint: KEPT } };
  }
}

import type { PromptResult } from "@berth/protocol/bridge"
import type { PromptId } from "@berth/protocol/ids"
import type { Journal } from "../journal/journal.ts"

const READ_BYTES = 1024 * 1024

/** The prompts whose end is in the journal. The caller must hold the journal meanwhile. */
export const reportedEndsIn = async (
  journal: Journal,
  ended: readonly { readonly prompt: PromptId; readonly result: PromptResult }[],
): Promise<PromptId[]> => {
  if (ended.length === 0) return []
  const states = new Map(ended.map(({ prompt, result }) => [prompt, result.state]))
  const told = new Set<PromptId>()
  const reader = journal.readAfter(journal.first - 1)
  const { last } = journal
  try {
    for (let read = journal.first - 1; read < last; ) {
      const { events } = await reader.next(READ_BYTES, new AbortController().signal)
      read += events.length
      for (const text of events) {
        // Most events are others, and parsing each takes longer than a boot should.
        if (!text.includes('"prompt.state"')) continue
        const { body } = JSON.parse(text)
        if (states.get(body.prompt) === body.state) told.add(body.prompt)
      }
    }
    return [...told]
  } finally {
    await reader.close()
  }
}

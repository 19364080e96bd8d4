/** The lines of a text, as they arrive. */
export const readLines = async function* (
  bytes: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<string> {
  const reader = bytes.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ""
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      const lines = (rest + value).split("\n")
      rest = lines.pop() ?? ""
      yield* lines
    }
    if (rest !== "") yield rest
  } finally {
    await reader.cancel().catch(() => {})
  }
}

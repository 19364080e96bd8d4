import type { Threads } from "./threads.ts"
import type { ThreadOrder } from "./walker.ts"

export interface ThreadCall<Message, Result> {
  readonly order: ThreadOrder
  /** Called with each message of the thread. Ends the call with `done` or `fail`. */
  hear(message: Message, end: { done(result: Result): void; fail(thrown: unknown): void }): void
  readonly signal?: AbortSignal | undefined
}

/** Has a thread carry out an order. A thread that fails or is cancelled is ended with all that it had open. */
export const inThread = async <Message, Result>(
  threads: Threads,
  { order, hear, signal }: ThreadCall<Message, Result>,
): Promise<Result> => {
  signal?.throwIfAborted()
  const { promise, resolve: done, reject: fail } = Promise.withResolvers<Result>()
  const onMessage = (message: Message) => hear(message, { done, fail })
  const onExit = () => fail(new Error("the thread that walks a tree ended"))
  const onAbort = () => fail(signal?.reason)
  signal?.addEventListener("abort", onAbort, { once: true })
  const thread = threads.take()
  thread.on("message", onMessage).on("error", fail).on("exit", onExit)
  thread.postMessage(order)
  try {
    const result = await promise
    thread.off("message", onMessage).off("error", fail).off("exit", onExit)
    threads.giveBack(thread)
    return result
  } catch (thrown) {
    await thread.terminate()
    throw thrown
  } finally {
    signal?.removeEventListener("abort", onAbort)
  }
}

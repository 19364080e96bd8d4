import { BerthError } from "@berth/protocol/errors"

/** Whether the error says that the sandbox is not to be used any more. */
export const isEnded = (thrown: unknown): boolean =>
  thrown instanceof BerthError && thrown.code === "sandbox.ended"

export const errorOf = (thrown: unknown): BerthError =>
  thrown instanceof BerthError
    ? thrown
    : new BerthError("internal", "unexpected failure", { cause: thrown })

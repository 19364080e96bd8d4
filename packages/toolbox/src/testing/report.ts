import { toWireError } from "@berth/protocol/errors"

/** Prints a line for the test that started the program. */
export const say = (line: unknown): void => console.log(JSON.stringify(line))

/** The code of the error that the promise rejects with, or its value. */
export const outcomeOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.catch((thrown: unknown) => toWireError(thrown).code)

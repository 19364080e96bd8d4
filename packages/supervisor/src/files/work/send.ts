import type { ServerResponse } from "node:http"
import { BerthError } from "@berth/protocol/errors"

/** Writes an answer no faster than the client takes it. */
export class Sender {
  readonly #response: ServerResponse

  constructor(response: ServerResponse) {
    this.#response = response
  }

  /** Resolves when the bytes are on their way, so that their memory can be reused. */
  write(bytes: Buffer | string): Promise<void> {
    return new Promise((resolve, reject) => {
      const response = this.#response
      const gone = () => reject(new BerthError("cancelled", "whoever called is gone"))
      if (response.destroyed) return gone()
      response.once("close", gone)
      response.write(bytes, (error) => {
        response.off("close", gone)
        if (error) gone()
        else resolve()
      })
    })
  }
}

/**
 * One thing at a time for each key: what is asked of one sandbox happens in the order of asking, and
 * sandboxes do not wait for each other.
 */
export const serialByKey = <Key>() => {
  const tails = new Map<Key, Promise<unknown>>()
  return <Result>(key: Key, work: () => Promise<Result>): Promise<Result> => {
    const turn = (tails.get(key) ?? Promise.resolve()).then(work, work)
    const tail = turn.then(ignore, ignore).then(() => {
      if (tails.get(key) === tail) tails.delete(key)
    })
    tails.set(key, tail)
    return turn
  }
}

const ignore = () => {}

-- Where a market's book is not known is found without a read of the segments between.
ALTER TABLE book_segment ADD KEY segment_state (market_id, state, first_sequence);
